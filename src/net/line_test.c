/* line_test.c - so many at a time, in order, and nobody is forgotten. */
#include "net/line.h"

#include "harness/expect.h"
#include "harness/runner.h"

enum { OPS = 6, MOST = 2 };

static hf_op ops[OPS];
static hf_op *begun[OPS];
static int begun_count, done_count;
static bool at_once;
static hf__line line;

static void count_done(hf_op *op)
{
    (void)op;
    done_count++;
}

static void end(hf_op *op)
{
    hf__line_ended(&line);
    hfd_finish(op, HF_APPLIED, 0);
}

static void begin(void *ctx, hf_op *op)
{
    EXPECT(ctx == ops);
    begun[begun_count++] = op;
    if (at_once)
        end(op);
}

static hf_op **behind(hf_op *op)
{
    return (hf_op **)(void *)&op->own[3];
}

static void open_line(void)
{
    line = (hf__line){.driver = "test",
                      .ctx = ops,
                      .most = MOST,
                      .begin = begin,
                      .behind = behind};
    hf__line_open(&line);
    for (int i = 0; i < OPS; i++)
        ops[i] =
            (hf_op){.done = count_done, .deadline = hfd_now() + HF_MS(600000)};
}

static void few_at_a_time(void)
{
    open_line();
    for (int i = 0; i < OPS; i++)
        hf__line_start(&line, &ops[i]);
    EXPECT_EQ(begun_count, MOST);
    for (int i = 0; i < OPS; i++) {
        int expected = i + 1 + MOST < OPS ? i + 1 + MOST : OPS;

        EXPECT(begun[i] == &ops[i]);
        end(begun[i]);
        EXPECT_EQ(begun_count, expected);
    }
    EXPECT_EQ(done_count, OPS);
    EXPECT_EQ(line.flights, 0);
    hf__line_close(&line);
}

/* An operation that is answered while it begins does not begin the next one
 * inside itself, and does not keep it from beginning. */
static void answered_at_once(void)
{
    open_line();
    hf__line_start(&line, &ops[0]);
    hf__line_start(&line, &ops[1]);
    for (int i = 2; i < OPS; i++)
        hf__line_start(&line, &ops[i]);
    at_once = true;
    end(begun[0]);
    EXPECT_EQ(begun_count, OPS);
    end(begun[1]);
    EXPECT_EQ(done_count, OPS);
    EXPECT_EQ(line.flights, 0);
    hf__line_close(&line);
}

/* Whose time is up is told, and costs nobody his turn. */
static void whose_time_is_up(void)
{
    open_line();
    ops[2].deadline = ops[3].deadline = hfd_now();
    for (int i = 0; i < OPS; i++)
        hf__line_start(&line, &ops[i]);
    end(begun[0]);
    EXPECT_EQ(begun_count, 3);
    EXPECT(begun[2] == &ops[4]);
    EXPECT_EQ(ops[2].outcome, HF_NOT_APPLIED);
    EXPECT_CODE(ops[2].error.code, HF_EUNAVAIL);
    EXPECT_EQ(ops[3].outcome, HF_NOT_APPLIED);
    EXPECT_EQ(done_count, 3);
    end(begun[1]);
    end(begun[2]);
    end(begun[3]);
    EXPECT_EQ(done_count, OPS);
    EXPECT_EQ(line.flights, 0);
    hf__line_close(&line);
}

/* One that has waited for most of its time is not begun, however much is left:
 * ten minutes here. */
static void a_share_of_its_time(void)
{
    open_line();
    for (int i = 0; i < OPS; i++)
        hf__line_start(&line, &ops[i]);
    /* As if they had begun to wait so long ago. */
    ops[2].sent = hfd_now() - HF_MS(600000 * 4);
    ops[3].sent = hfd_now() - HF_MS(600000 * 2);
    end(begun[0]);
    EXPECT_EQ(ops[2].outcome, HF_NOT_APPLIED);
    EXPECT_CODE(ops[2].error.code, HF_EUNAVAIL);
    EXPECT_EQ(begun_count, 3);
    EXPECT(begun[2] == &ops[3]);
    EXPECT_EQ(ops[3].sent, 0); /* nothing was sent yet */
    for (int i = 1; i < begun_count; i++)
        end(begun[i]);
    EXPECT_EQ(done_count, OPS);
    EXPECT_EQ(line.flights, 0);
    hf__line_close(&line);
}

/* A lease of a second has attempts of 166 ms; here nobody waits for a turn. */
static void short_attempts(void)
{
    int tries = 0;

    /* The machine may be busy for longer than that: then again. */
    do {
        hf_nsec until = hfd_now() + HF_MS(90);

        open_line();
        begun_count = 0;
        ops[0].deadline = until;
        hf__line_start(&line, &ops[0]);
        if (begun_count)
            end(begun[0]);
        hf__line_close(&line);
    } while (begun_count == 0 && ++tries < 100);
    EXPECT_EQ(begun_count, 1);
}

static const test_case cases[] = {
    TEST(few_at_a_time), TEST(answered_at_once), TEST(whose_time_is_up),
    TEST(a_share_of_its_time), TEST(short_attempts)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "line", cases, sizeof cases / sizeof *cases);
}
