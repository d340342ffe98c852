/* order.c - who holds, compared with an oracle on every small queue.
 *
 * For each queue of up to five entries, exclusive and shared mixed or permits
 * of two and of three, and for each order in which they leave, every verdict
 * after every step must be the oracle's; tokens rise in the order of grants.
 * Then long random histories of the same, where joins and leaves alternate,
 * and a long queue.  An eighth of all that, but for queues of up to three, is
 * played where another target plays all of it with nearly the same code, and
 * under a sanitizer, which looks at the code and not at the rule. */
#include "suite.h"

enum { MEMBERS_MAX = 64, PARTIES = 3 };

/* One of so many is played. */
static size_t share(void)
{
    const char *sanitizer = getenv("HF_SANITIZE");

    return the_target->quirks.has_cousin || (sanitizer && *sanitizer) ? 8 : 1;
}

typedef struct member {
    hf_place place;
    party *p;
    uint64_t token; /* 0: not granted yet */
} member;

typedef struct history { /* one queue as it should be */
    const char *key;
    party *parties[PARTIES];
    member *members[MEMBERS_MAX]; /* in order of joining */
    oracle_entry queue[MEMBERS_MAX];
    size_t count;
    uint64_t top;    /* the largest token that was granted */
    hf_nsec renewed; /* when the sessions were extended last */
} history;

static void open_history(history *h, const char *key)
{
    *h = (history){.key = key, .renewed = hfd_now()};
    for (int i = 0; i < PARTIES; i++)
        h->parties[i] = party_open(LONG_MS);
}

static void close_history(history *h)
{
    for (int i = 0; i < PARTIES; i++)
        party_close(h->parties[i]);
}

/* Thousands of queues take longer than a lease where a step is a commit. */
static void keep_alive(history *h)
{
    hf_nsec now = hfd_now();

    if (now - h->renewed < HF_MS(LONG_MS / 3))
        return;
    h->renewed = now;
    for (int i = 0; i < PARTIES; i++)
        EXPECT_CODE(party_renew(h->parties[i], LONG_MS), 0);
}

/* Every member's verdict is the oracle's.  Those granted in one step have
 * tokens above all before, in the order of their places. */
static void compare_all(history *h)
{
    for (int i = 0; i < PARTIES; i++) {
        hf_place *places[MEMBERS_MAX];
        size_t n = 0;

        for (size_t k = 0; k < h->count; k++) {
            if (h->members[k]->p == h->parties[i])
                places[n++] = &h->members[k]->place;
        }
        if (n > 0)
            EXPECT_CODE(recheck_many(h->parties[i], places, n), 0);
    }
    keep_alive(h);
    for (size_t k = 0; k < h->count; k++) {
        member *m = h->members[k];
        bool granted = oracle_granted(h->queue, k);

        EXPECT_EQ(m->place.verdict, granted ? HF_GRANTED : HF_WAITS);
        EXPECT(k == 0 || m->place.num > h->members[k - 1]->place.num);
        if (!granted)
            continue;
        if (m->token == 0) {
            EXPECT(m->place.token > h->top);
            m->token = h->top = m->place.token;
        }
        EXPECT_EQ(m->place.token, m->token);
    }
}

static void join_member(history *h, member *m, size_t who, oracle_entry kind)
{
    m->p = h->parties[who % PARTIES];
    m->place = make_place(h->key, kind.mode);
    m->place.places = kind.places;
    m->token = 0;
    h->members[h->count] = m;
    h->queue[h->count] = kind;
    EXPECT_CODE(join(m->p, &m->place), 0);
    EXPECT_EQ(m->place.verdict,
              oracle_granted(h->queue, h->count) ? HF_GRANTED : HF_WAITS);
    h->count++;
}

static void leave_member(history *h, size_t at)
{
    member *m = h->members[at];
    hf_verdict was = oracle_granted(h->queue, at) ? HF_GRANTED : HF_WAITS;

    EXPECT_EQ(leave(m->p, &m->place), was);
    h->count--;
    for (size_t i = at; i < h->count; i++) {
        h->members[i] = h->members[i + 1];
        h->queue[i] = h->queue[i + 1];
    }
}

/* The queue of n kinds; then they leave, in the order that `order` numbers
 * among the n! there are. */
static void play_order(history *h, const oracle_entry *kinds, size_t n,
                       size_t order)
{
    member members[8];

    for (size_t i = 0; i < n; i++)
        join_member(h, &members[i], i, kinds[i]);
    compare_all(h);
    for (size_t left = n; left > 0; left--) {
        leave_member(h, order % left);
        order /= left;
        compare_all(h);
    }
}

static size_t factorial(size_t n)
{
    return n < 2 ? 1 : n * factorial(n - 1);
}

/* Of longer queues than three its share of the orders, another one a mix. */
static void play_all(const oracle_entry *first, const oracle_entry *second,
                     size_t most)
{
    history h;

    open_history(&h, "k");
    for (size_t n = 1; n <= most; n++) {
        for (size_t mix = 0; mix < ((size_t)1 << n); mix++) {
            size_t step = n > 3 ? share() : 1;
            oracle_entry kinds[8];

            for (size_t i = 0; i < n; i++)
                kinds[i] = mix >> i & 1 ? *second : *first;
            for (size_t at = mix % step; at < factorial(n); at += step)
                play_order(&h, kinds, n, at);
            if (first->mode == second->mode)
                break; /* one kind: one mix */
        }
    }
    EXPECT_EQ(count_entries(h.parties[0]), 0);
    close_history(&h);
}

static void every_queue_of_four(void)
{
    play_all(&(oracle_entry){HF_EXCLUSIVE, 0}, &(oracle_entry){HF_SHARED, 0},
             4);
}

/* Five: every mix, and every order that begins with one of the first two. */
static void queues_of_five(void)
{
    size_t step = share();
    history h;

    open_history(&h, "k");
    for (size_t mix = 0; mix < 32; mix++) {
        oracle_entry kinds[5];

        for (size_t i = 0; i < 5; i++)
            kinds[i].mode = mix >> i & 1 ? HF_SHARED : HF_EXCLUSIVE;
        for (size_t i = 0; i < 5; i++)
            kinds[i].places = 0;
        for (size_t order = mix % step; order < 120; order += step) {
            if (order % 5 < 2)
                play_order(&h, kinds, 5, order);
        }
    }
    close_history(&h);
}

static void permits_of_two(void)
{
    oracle_entry kind = {HF_PERMIT, 2};

    play_all(&kind, &kind, 5);
}

static void permits_of_three(void)
{
    oracle_entry kind = {HF_PERMIT, 3};

    play_all(&kind, &kind, 5);
}

/* Joins and leaves as they come; the seed is printed with a failure. */
static void play_random(uint64_t seed, bool permits, int steps)
{
    history h;
    member members[MEMBERS_MAX] = {{.p = NULL}};
    uint64_t state = seed;

    open_history(&h, "k");
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < steps; i++) {
        uint64_t draw = (state = state * UINT64_C(6364136223846793005) +
                                 1442695040888963407) >>
                        33;

        if (h.count == 0 || (draw % 100 < 55 && h.count < 12)) {
            oracle_entry kind = {permits          ? HF_PERMIT
                                 : draw / 100 % 2 ? HF_SHARED
                                                  : HF_EXCLUSIVE,
                                 permits ? 3 : 0};
            size_t slot = 0;

            for (size_t k = 0; k < h.count; k++) {
                if (h.members[k] == &members[slot]) {
                    slot++;
                    k = (size_t)-1;
                }
            }
            join_member(&h, &members[slot], draw / 256, kind);
        } else {
            leave_member(&h, draw / 256 % h.count);
        }
        compare_all(&h);
    }
    while (h.count > 0)
        leave_member(&h, h.count - 1);
    close_history(&h);
}

static void random_histories(void)
{
    int steps = 1000 / (int)share();

    play_random(1, false, steps);
    play_random(2, false, steps);
    play_random(3, true, steps);
}

/* Two thousand in a queue: nobody is lost, the order is kept, and a leave costs
 * no more than the store can bear. */
static void long_queue(void)
{
    int n = 2000 / (int)share();
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place *places = calloc((size_t)n, sizeof *places);
    uint64_t top = 0;

    EXPECT(places != NULL);
    for (int i = 0; i < n; i++) {
        places[i] = make_place("k", HF_EXCLUSIVE);
        EXPECT_CODE(join(i % 2 ? a : b, &places[i]), 0);
        EXPECT_EQ(places[i].verdict, i == 0 ? HF_GRANTED : HF_WAITS);
        EXPECT(i == 0 || places[i].num > places[i - 1].num);
    }
    for (int i = n - 1; i >= n / 2; i--) /* half of them give up, from behind */
        EXPECT_EQ(leave(i % 2 ? a : b, &places[i]), HF_WAITS);
    for (int i = 0; i < n / 2; i++) {
        party *p = i % 2 ? a : b;

        EXPECT_CODE(recheck(p, &places[i]), 0);
        EXPECT_EQ(places[i].verdict, HF_GRANTED);
        EXPECT(places[i].token > top);
        top = places[i].token;
        must_leave(p, &places[i]);
    }
    EXPECT_EQ(count_entries(a), 0);
    free(places);
    party_close(a);
    party_close(b);
}

/* One leave lets a crowd in: all the readers up to the next writer. */
static void crowd_of_readers(void)
{
    enum { N = 300 };
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place writer = make_place("k", HF_EXCLUSIVE);
    hf_place readers[N], *all[N];
    hf_place next = make_place("k", HF_EXCLUSIVE);
    uint64_t top;

    must_hold(a, &writer);
    top = writer.token;
    for (int i = 0; i < N; i++) {
        readers[i] = make_place("k", HF_SHARED);
        all[i] = &readers[i];
        must_wait(b, &readers[i]);
    }
    must_wait(a, &next);
    must_leave(a, &writer);
    EXPECT_CODE(recheck_many(b, all, N), 0);
    for (int i = 0; i < N; i++) {
        EXPECT_EQ(readers[i].verdict, HF_GRANTED);
        EXPECT(readers[i].token > top);
        top = readers[i].token;
    }
    for (int i = N - 1; i >= 0; i--) {
        EXPECT_CODE(recheck(a, &next), 0);
        EXPECT_EQ(next.verdict, HF_WAITS);
        must_leave(b, &readers[i]);
    }
    await_verdict(a, &next, HF_GRANTED);
    EXPECT(next.token > top);
    must_leave(a, &next);
    party_close(a);
    party_close(b);
}

const test_case order_tests[] = {
    TEST(every_queue_of_four), TEST(queues_of_five),   TEST(permits_of_two),
    TEST(permits_of_three),    TEST(random_histories), TEST(long_queue),
    TEST(crowd_of_readers),    {NULL, NULL, 0}};
