/* judge_test.c - the rule over a queue's entries is hfd_admit, on every small
 * queue; who is due when one leaves is who is granted after and was not before,
 * whoever leaves; and ends are those of the entry's own kind. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "judge.h"

enum { MOST = 7 };

typedef struct queue {
    sql_entry entries[MOST];
    size_t n;
} queue;

static void add(queue *q, hf_mode mode, uint32_t places)
{
    sql_entry *entry = &q->entries[q->n];

    *entry = (sql_entry){.num = 10 * (q->n + 1),
                         .mode = mode,
                         .places = places,
                         .run = 1,
                         .rid = {{(uint8_t)(q->n + 1)}}};
    q->n++;
}

static bool granted(const queue *q, size_t me, size_t *ret_for)
{
    hf_seat seats[MOST];

    for (size_t i = 0; i < q->n; i++)
        seats[i] = (hf_seat){.num = q->entries[i].num,
                             .mode = (uint8_t)q->entries[i].mode,
                             .places = q->entries[i].places};
    *ret_for = q->n;
    return hfd_admit(seats, q->n, me, ret_for) == HF_GRANTED;
}

/* Calls `check` with every queue of one kind of at most MOST entries. */
static void each_queue(void (*check)(const queue *q))
{
    for (size_t n = 0; n <= MOST; n++) {
        for (unsigned bits = 0; bits < 1U << n; bits++) {
            queue q = {.n = 0};

            for (size_t i = 0; i < n; i++)
                add(&q, bits >> i & 1 ? HF_SHARED : HF_EXCLUSIVE, 0);
            check(&q);
        }
        for (uint32_t places = 1; places < 5; places++) {
            queue q = {.n = 0};

            for (size_t i = 0; i < n; i++)
                add(&q, HF_PERMIT, places);
            check(&q);
        }
    }
}

static void check_rule(const queue *q)
{
    size_t held = sql_held(q->entries, q->n);

    for (size_t i = 0; i < q->n; i++) {
        size_t wanted;

        EXPECT_EQ(i < held, granted(q, i, &wanted));
        EXPECT_EQ(sql_waits_for(q->entries, q->n, i), wanted);
    }
    EXPECT_EQ(sql_waits_for(q->entries, q->n, q->n), q->n);
    EXPECT_EQ(sql_held_until(q->entries, q->n, NULL),
              held ? q->entries[held - 1].num : 0);
}

static void rule(void)
{
    each_queue(check_rule);
}

static queue without(const queue *q, unsigned gone)
{
    queue after = {.n = 0};

    for (size_t i = 0; i < q->n; i++)
        if (!(gone >> i & 1))
            after.entries[after.n++] = q->entries[i];
    return after;
}

/* Those due are exactly granted(after) less granted(before). */
static void check_due(const queue *q, const queue *after, uint64_t until)
{
    size_t first, due = sql_due(after->entries, after->n, until, &first);

    for (size_t i = 0; i < after->n; i++) {
        size_t was = sql_find_num(q->entries, q->n, after->entries[i].num);
        size_t unused;
        bool is_new = granted(after, i, &unused) && !granted(q, was, &unused);

        EXPECT_EQ(is_new, i >= first && i < first + due);
    }
}

static void check_leaving(const queue *q)
{
    for (size_t i = 0; i < q->n; i++) {
        queue after = without(q, 1U << i);
        const sql_entry *left = &q->entries[i];
        size_t unused;

        EXPECT_EQ(sql_held_among(after.entries, after.n, left),
                  granted(q, i, &unused));
        check_due(q, &after, sql_held_until(after.entries, after.n, left));
    }
    for (unsigned gone = 0; gone < 1U << q->n; gone++) {
        queue after = without(q, gone);

        check_due(q, &after, sql_held_until(q->entries, q->n, NULL));
    }
}

static void due(void)
{
    each_queue(check_leaving);
}

/* Several leave, one after the other in any order, and each looks when the
 * last has gone: whoever is due then is told by one of them at least. */
static void check_leavers(const queue *q, unsigned gone)
{
    queue after = without(q, gone);
    unsigned told = 0;

    for (size_t i = 0; i < q->n; i++) {
        uint64_t until;
        size_t first, n;

        if (!(gone >> i & 1))
            continue;
        until = sql_held_until_then(after.entries, after.n, &q->entries[i]);
        n = sql_due(after.entries, after.n, until, &first);
        for (size_t at = first; at < first + n; at++)
            told |= 1U << at;
    }
    for (size_t at = 0; at < after.n; at++) {
        size_t was = sql_find_num(q->entries, q->n, after.entries[at].num);
        size_t unused;

        if (granted(&after, at, &unused) && !granted(q, was, &unused))
            EXPECT(told >> at & 1);
    }
}

static void check_late_looks(const queue *q)
{
    for (unsigned gone = 1; gone < 1U << q->n; gone++)
        check_leavers(q, gone);
}

static void late_looks(void)
{
    each_queue(check_late_looks);
}

/* Alone, a late look tells nobody in a queue of locks who was told before. */
static void check_late_alone(const queue *q)
{
    for (size_t i = 0; i < q->n; i++) {
        queue after = without(q, 1U << i);

        if (q->entries[i].mode != HF_PERMIT)
            check_due(
                q, &after,
                sql_held_until_then(after.entries, after.n, &q->entries[i]));
    }
}

static void late_alone(void)
{
    each_queue(check_late_alone);
}

/* The beginning of a queue says the same of those in it. */
static void check_seen(const queue *q)
{
    size_t held = sql_held(q->entries, q->n);

    for (size_t n = 0; n <= q->n; n++) {
        size_t seen = sql_held(q->entries, n);

        EXPECT_EQ(seen, held < n ? held : n);
    }
}

static void seen_in_part(void)
{
    each_queue(check_seen);
}

static void check_try(const queue *q)
{
    static const hf_mode modes[] = {HF_EXCLUSIVE, HF_SHARED, HF_PERMIT};

    if (q->n == MOST)
        return;
    for (size_t m = 0; m < 3; m++) {
        for (uint32_t places = 1; places < 5; places++) {
            uint32_t wanted = modes[m] == HF_PERMIT ? places : 0;
            int code = sql_try(q->entries, q->n, modes[m], wanted);
            queue then = *q;
            hf_seat first = {.mode = (uint8_t)q->entries[0].mode,
                             .places = q->entries[0].places};
            size_t unused;

            if (q->n > 0 && !hfd_same_kind(&first, modes[m], wanted)) {
                EXPECT_EQ(code, HF_EKIND);
                continue;
            }
            add(&then, modes[m], wanted);
            EXPECT_EQ(code, granted(&then, q->n, &unused) ? 0 : HF_EBUSY);
        }
    }
}

static void tries(void)
{
    each_queue(check_try);
}

/* A queue of several kinds is nobody's; then at least nobody more holds. */
static void mixed(void)
{
    for (unsigned code = 0; code < 3 * 3 * 3 * 3; code++) {
        queue q = {.n = 0};
        unsigned rest = code;
        size_t held;

        for (size_t i = 0; i < 4; i++, rest /= 3)
            add(&q, (hf_mode)(rest % 3), 2);
        held = sql_held(q.entries, q.n);
        EXPECT(held >= 1);
        for (size_t i = 0; i < held; i++) {
            size_t unused;

            EXPECT(granted(&q, i, &unused));
            EXPECT(held == 1 || q.entries[i].mode == q.entries[0].mode);
        }
    }
}

static void found(void)
{
    queue q = {.n = 0};
    hf_id nobody = {{99}};

    for (int i = 0; i < 4; i++)
        add(&q, HF_EXCLUSIVE, 0);
    EXPECT_EQ(sql_find(q.entries, q.n, &q.entries[2].rid), 2);
    EXPECT_EQ(sql_find(q.entries, q.n, &nobody), 4);
    EXPECT_EQ(sql_find_num(q.entries, q.n, 40), 3);
    EXPECT_EQ(sql_find_num(q.entries, q.n, 41), 4);
}

static void ends(void)
{
    sql_entry bound = {.num = 1}, lease = {.num = 2, .lease_ms = 5},
              closed = {.num = 3, .closed = true, .exp_us = 1000};

    EXPECT_EQ(sql_life_of(&bound), SQL_BY_SESSION);
    EXPECT(!sql_over(&bound, INT64_MAX));
    EXPECT_EQ(sql_entry_left(&bound, 70, 500), 70);
    EXPECT_EQ(sql_entry_left(&bound, -70, 500), 0);
    EXPECT_EQ(sql_lease_left(&bound, 500), 0);
    bound.brk_us = 560;
    EXPECT_EQ(sql_entry_left(&bound, 70, 500), 60);
    EXPECT(!sql_over(&bound, 559) && sql_over(&bound, 560));

    /* Not started, a fixed lease lives as the session does. */
    EXPECT_EQ(sql_life_of(&lease), SQL_BY_SESSION);
    EXPECT_EQ(sql_lease_left(&lease, 500), 0);
    lease.exp_us = 600;
    EXPECT_EQ(sql_life_of(&lease), SQL_BY_TIME);
    EXPECT_EQ(sql_entry_left(&lease, -70, 500), 100);
    EXPECT_EQ(sql_lease_left(&lease, 500), 100);
    EXPECT_EQ(sql_lease_left(&lease, 700), 0);
    EXPECT(!sql_over(&lease, 599) && sql_over(&lease, 600));

    EXPECT_EQ(sql_life_of(&closed), SQL_BY_TIME);
    EXPECT_EQ(sql_entry_left(&closed, INT64_MAX, 999), 1);
    EXPECT(sql_over(&closed, 1000));
    EXPECT(!sql_over(&closed, 0)); /* the observer has no clock */
}

static void next_end(void)
{
    queue q = {.n = 0};
    int64_t left[] = {300, 200, INT64_MAX, 1};

    add(&q, HF_SHARED, 0);
    add(&q, HF_SHARED, 0);
    add(&q, HF_SHARED, 0);
    add(&q, HF_EXCLUSIVE, 0);
    EXPECT_EQ(sql_next_end(q.entries, q.n, 3, left, 0), 200);
    EXPECT_EQ(sql_next_end(q.entries, q.n, q.n, left, 0), 200);
    EXPECT_EQ(sql_next_end(q.entries, q.n, 1, left, 0), 300);
    EXPECT_EQ(sql_next_end(q.entries, q.n, 0, left, 0), INT64_MAX);
    q.entries[2].brk_us = 150;
    EXPECT_EQ(sql_next_end(q.entries, q.n, 3, left, 100), 50);
    EXPECT_EQ(sql_next_end(q.entries, 0, 0, left, 100), INT64_MAX);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(rule),         TEST(due),     TEST(late_looks), TEST(late_alone),
        TEST(seen_in_part), TEST(tries),   TEST(mixed),      TEST(found),
        TEST(ends),         TEST(next_end)};

    return run_tests(argc, argv, "judge", cases, sizeof cases / sizeof *cases);
}
