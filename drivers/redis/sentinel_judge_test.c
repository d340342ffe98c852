/* sentinel_judge_test.c - what doctor says about sentinels, from facts alone.
 *
 * Each test puts one flaw before the judge and looks for the finding that must
 * name it; a sound set-up has none but what cannot be promised at all. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "sentinel.h"

typedef struct heard {
    const char *name;
    hf_level level;
    char text[400];
    bool found;
    int worse; /* findings that are not fine */
} heard;

static void hear(hf_level level, const char *name, const char *text, void *user)
{
    heard *h = user;

    h->worse += level != HF_FINE;
    if (strcmp(name, h->name) == 0) {
        h->found = true;
        h->level = level;
        snprintf(h->text, sizeof h->text, "%s", text);
    }
}

static redis_facts sound_facts(void)
{
    redis_facts f;

    redis_facts_init(&f);
    f.native = f.strict = true;
    f.lease = HF_MS(30000);
    f.lag_ms = 11000;
    f.max_lag_s = 10;
    f.min_replicas = 1;
    f.replicas = 2;
    return f;
}

static redis_watch sound_watch(void)
{
    redis_watch w = {.listed = 3,
                     .reached = 3,
                     .sentinels = 3,
                     .quorum = 2,
                     .replicas = 2,
                     .down_after_ms = 5000,
                     .flags = "master",
                     .name = "jobs"};

    return w;
}

static heard judge_for(const char *name, const redis_facts *f,
                       const redis_watch *w)
{
    heard h = {.name = name};

    redis_judge_sentinel(f, w, hear, &h);
    return h;
}

#define EXPECT_FOUND(name_, level_, part_)                                     \
    do {                                                                       \
        heard h_ = judge_for((name_), &f, &w);                                 \
        EXPECT(h_.found);                                                      \
        EXPECT_EQ(h_.level, (level_));                                         \
        EXPECT_HAS(h_.text, (part_));                                          \
    } while (0)

static void sound(void)
{
    redis_facts f = sound_facts();
    redis_watch w = sound_watch();

    EXPECT_EQ(judge_for("promise", &f, &w).worse, 0);
    EXPECT_FOUND("promise", HF_FINE, "not promised");
}

static void the_sentinels(void)
{
    redis_facts f = sound_facts();
    redis_watch w = sound_watch();

    w.reached = 1;
    EXPECT_FOUND("sentinels", HF_WARN, "1 of the 3");
    w = sound_watch();
    w.disagree = 1;
    EXPECT_FOUND("sentinels", HF_WARN, "another primary");
    w = sound_watch();
    w.quorum = 4;
    EXPECT_FOUND("quorum", HF_WARN, "ever be promoted");
    w.quorum = 1;
    w.sentinels = 2;
    EXPECT_FOUND("quorum", HF_WARN, "run three");
    w = sound_watch();
    w.down_after_ms = 30000;
    EXPECT_FOUND("failover", HF_WARN, "down-after");
    w.replicas = 0;
    EXPECT_FOUND("failover", HF_WARN, "no replica");
    snprintf(w.flags, sizeof w.flags, "s_down,master");
    EXPECT_FOUND("failover", HF_WARN, "s_down");
}

static void the_promise(void)
{
    redis_facts f = sound_facts();
    redis_watch w = sound_watch();

    f.max_lag_s = 11;
    EXPECT_FOUND("lag", HF_WARN, "lag_ms=12000");
    f.min_replicas = 0;
    EXPECT_FOUND("promise", HF_WARN, "min-replicas-to-write");
    f.strict = false;
    EXPECT_FOUND("promise", HF_WARN, "any failover");
    f.confirmed = 1;
    EXPECT_FOUND("promise", HF_WARN, "the 1 that confirmed");
    EXPECT_FOUND("confirmed", HF_FINE, "1 replicas");
    f.confirmed = 2;
    EXPECT_FOUND("confirmed", HF_WARN, "every replica");
    f.confirmed = 3;
    EXPECT_FOUND("confirmed", HF_FAIL, "nothing can be granted");
}

static const test_case cases[] = {TEST(sound), TEST(the_sentinels),
                                  TEST(the_promise)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sentinel_judge", cases,
                     sizeof cases / sizeof *cases);
}
