/* plot.c - what the checker's tests plant (plot.h).
 *
 * A history is built line by line in `plot`, where a test may change a line
 * and have it judged again.  Knows nothing of the rules. */
#include "plot.h"

#include "harness/expect.h"

camp_record plot[PLOT_ROOM];
size_t lines;
camp_counts counted;

int64_t ms(int64_t n)
{
    return (n + 1000) * 1000000;
}

camp_record *put(camp_kind kind, uint32_t life, uint32_t task, int at)
{
    camp_record *r = &plot[lines++];

    EXPECT(lines <= PLOT_ROOM);
    *r = (camp_record){.kind = (uint8_t)kind,
                       .life = life,
                       .task = task,
                       .at = ms(at),
                       .called = ms(at)};
    return r;
}

void begin(uint64_t promises)
{
    camp_record *r;

    lines = 0;
    r = put(CAMP_CONFIG, 0, 0, -500);
    r->until = LEASE * INT64_C(1000000);
    r->number = promises;
}

void grant(uint32_t life, uint32_t task, int asked, int told, uint64_t token)
{
    camp_record *r = put(CAMP_ASK, life, task, asked);

    r->until = INT64_MAX;
    r = put(CAMP_GRANT, life, task, told);
    r->called = ms(asked);
    r->token = token;
    r = put(CAMP_CHECK, life, task, told + 1);
    r->called = ms(told);
    r->until = ms(told + LEASE);
}

void give(uint32_t life, uint32_t task, int at, int code)
{
    put(CAMP_RELEASE, life, task, at);
    put(CAMP_RELEASED, life, task, at + 1)->code = code;
}

void refuse(uint32_t life, uint32_t task, int asked, int told, int code,
            uint8_t flags)
{
    camp_record *r = put(CAMP_ASK, life, task, asked);

    r->flags = flags;
    r->until = flags & CAMP_TRY ? ms(asked) : ms(asked + 100);
    r = put(CAMP_REFUSED, life, task, told);
    r->called = ms(asked);
    r->code = code;
    r->flags = flags;
}

void lose(uint32_t life, uint32_t task, int at)
{
    camp_record *r = put(CAMP_CHANGE, life, task, at);

    r->number = HF_LOST;
    r->code = HF_EEXPIRED;
}

void strike(int fault, int from, int healed)
{
    put(CAMP_FAULT, 0, 0, from)->code = fault;
    if (healed)
        put(CAMP_HEALED, 0, 0, healed)->code = fault;
}

void in_turn(int given, int asked, int told, uint64_t token)
{
    begin(CAMP_TOKENS);
    grant(1, 1, 0, 10, 5);
    give(1, 1, given, 0);
    grant(2, 1, asked, told, token);
    give(2, 1, told + 50, 0);
}

int judged(void)
{
    static camp_case c;
    int found;

    for (size_t i = 0; i < lines; i++)
        plot[i].sum = camp_sum(&plot[i]);
    EXPECT(camp_add(&c, plot, lines * sizeof *plot));
    EXPECT(camp_build(&c));
    EXPECT_EQ(c.counts.damaged, 0);
    found = camp_judge(&c) ? c.verdicts[0].invariant : 0;
    for (size_t i = 0; i < c.verdict_count && i < CAMP_VERDICTS; i++)
        camp_print(stderr, &c, &c.verdicts[i]);
    counted = c.counts;
    camp_free(&c);
    return found;
}
