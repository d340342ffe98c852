/* grpc_lost_test.c - what a channel does when members are lost.
 *
 * One member or three, paused and killed while calls are under way; a forked
 * child.  What was APPLIED is in the store, what is in the store was APPLIED or
 * UNKNOWN: counted on both sides. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/ensemble.h"

#include "grpc_world.h"

/* ---- Standing still ---- */

/* One thread of a process takes the signal; until it has had a core the others
 * may still answer. */
static bool stands_still(pid_t pid)
{
    char path[64], line[512];
    struct dirent *entry;
    bool still = true;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    EXPECT(tasks != NULL);
    while (still && (entry = readdir(tasks))) {
        const char *state = NULL;
        FILE *f;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid,
                 entry->d_name);
        f = fopen(path, "re");
        if (f && fgets(line, sizeof line, f))
            state = strrchr(line, ')');
        if (f)
            fclose(f);
        still = !state || state[2] == 'T'; /* without a line it is gone */
    }
    closedir(tasks);
    return still;
}

static void pause_member(const world *w, int i)
{
    ensemble_pause(w->cluster, i);
    EXPECT(WAIT_FOR(stands_still(w->cluster->members[i].pid), 20000));
}

/* ---- One member ---- */

/* A call that is late is given up alone; the member that does not even answer
 * a PING is given up with its connection. */
static void paused(void)
{
    world w;
    ask a, b;

    open_world(&w, 1);
    start_keeper(&w);
    EXPECT_EQ(put(w.channel, "a", 10000), HF_APPLIED);
    pause_member(&w, 0);
    set_put(&b, w.channel, "b", false, 60000);
    grpc_start(w.channel, &b.call);
    drive(set_put(&a, w.channel, "c", true, 200));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    EXPECT_HAS(a.error.text, "127.0.0.1:");
    EXPECT_HAS(a.error.text, " ms");
    EXPECT_EQ(atomic_load(&b.landed), 0);
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 20000));
    EXPECT_EQ(b.outcome, HF_UNKNOWN);
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, 10000));
    /* Now there is no connection, and nobody shakes hands: not applied. */
    EXPECT_EQ(put(w.channel, "d", 300), HF_NOT_APPLIED);
    ensemble_continue(w.cluster, 0);
    EXPECT(WAIT_FOR(put(w.channel, "e", 2000) == HF_APPLIED, 20000));
    stop_keeper(&w);
    close_world(&w);
}

/* The same for a thread that drives its call, with no keeper about. */
static void paused_driven(void)
{
    world w;
    ask a;
    hf_nsec begun;

    open_world(&w, 1);
    pause_member(&w, 0);
    begun = hfd_now();
    drive(set_put(&a, w.channel, "a", true, 30000));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    EXPECT_HAS(a.error.text, "does not answer any more");
    /* By its deadline it would have been much later. */
    EXPECT(hfd_now() - begun < HF_MS(25000));
    ensemble_continue(w.cluster, 0);
    EXPECT(WAIT_FOR(put(w.channel, "e", 2000) == HF_APPLIED, 20000));
    close_world(&w);
}

static void late_undriven(void)
{
    world w;
    ask a, b;

    open_world(&w, 1);
    start_keeper(&w);
    pause_member(&w, 0);
    set_put(&a, w.channel, "a", false, 200);
    grpc_start(w.channel, &a.call);
    EXPECT(WAIT_FOR(atomic_load(&a.landed) == 1, 10000));
    EXPECT_EQ(a.outcome, HF_UNKNOWN);
    EXPECT_EQ(a.code, GRPC_DEADLINE_EXCEEDED);
    ensemble_kill(w.cluster, 0);
    EXPECT(WAIT_FOR(put(w.channel, "c", 100) == HF_NOT_APPLIED, 10000));
    /* This one waits for the dialer thread, in vain, or hears at once. */
    set_put(&b, w.channel, "b", false, 500);
    grpc_start(w.channel, &b.call);
    EXPECT(WAIT_FOR(atomic_load(&b.landed) == 1, 10000));
    EXPECT_EQ(b.outcome, HF_NOT_APPLIED);
    EXPECT_EQ(b.error.code, HF_EUNAVAIL);
    ensemble_restart(w.cluster, 0);
    EXPECT(WAIT_FOR(put(w.channel, "e", 2000) == HF_APPLIED, 30000));
    stop_keeper(&w);
    close_world(&w);
}

/* After a while of silence a dead connection is noticed before it is used: the
 * call is not lost with it. */
static void restarted_while_idle(void)
{
    world w;
    char where[80];

    open_world(&w, 1);
    EXPECT_EQ(put(w.channel, "a", 10000), HF_APPLIED);
    ensemble_kill(w.cluster, 0);
    ensemble_restart(w.cluster, 0);
    ensemble_await(w.cluster);
    test_sleep_ms(600);
    EXPECT_EQ(put(w.channel, "b", 10000), HF_APPLIED);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    EXPECT_EQ(grpc_member(w.channel, where, sizeof where), 2);
    EXPECT_EQ(atomic_load(&w.standing), 1);
    close_world(&w);
}

static void count_end(grpc_stream *stream, grpc_code code, const hf_error *why)
{
    EXPECT_EQ(code, GRPC_UNAVAILABLE);
    EXPECT_EQ(why->code, HF_EUNAVAIL);
    atomic_fetch_add((atomic_int *)stream->ctx, 1);
}

static void no_message(grpc_stream *stream, const void *bytes, size_t len)
{
    (void)stream;
    (void)bytes;
    FAIL_TEST("a message of %zu bytes that nobody asked for", len);
}

/* A stream hears that it ended, and that it can be opened again. */
static void stream_lost(void)
{
    world w;
    hf_error err = {0};
    grpc_stream stream = {.method = "/etcdserverpb.Watch/Watch"};
    atomic_int ended = 0;

    stream.ctx = &ended;
    stream.message = no_message;
    stream.ended = count_end;
    open_world(&w, 1);
    start_keeper(&w);
    EXPECT_OK(grpc_stream_open(w.channel, &stream, &err), err);
    grpc_attend(w.channel, 1);
    ensemble_kill(w.cluster, 0);
    EXPECT(WAIT_FOR(atomic_load(&ended) == 1, 10000));
    EXPECT_CODE(grpc_stream_open(w.channel, &stream, &err), HF_EUNAVAIL);
    ensemble_restart(w.cluster, 0);
    /* Nobody calls: the channel dials because it had streams. */
    EXPECT(WAIT_FOR(atomic_load(&w.standing) == 1, 30000));
    EXPECT_OK(grpc_stream_open(w.channel, &stream, &err), err);
    grpc_move(w.channel, "the test says so");
    EXPECT(WAIT_FOR(atomic_load(&ended) == 2, 10000));
    EXPECT(WAIT_FOR(atomic_load(&w.standing) == 2, 30000));
    grpc_attend(w.channel, -1);
    stop_keeper(&w);
    close_world(&w);
}

/* ---- Three ---- */

enum { THREADS = 6 };

typedef struct caller {
    world *w;
    int number, counted, unknown, refused;
    pthread_t thread;
} caller;

static void *run_caller(void *arg)
{
    caller *c = arg;
    char key[32];

    for (int i = 0; !atomic_load(&c->w->stop); i++) {
        hf_outcome outcome;

        snprintf(key, sizeof key, "a%d.%d", c->number, i);
        outcome = put(c->w->channel, key, 3000);
        c->counted += outcome == HF_APPLIED;
        c->unknown += outcome == HF_UNKNOWN;
        c->refused += outcome == HF_NOT_APPLIED;
        if (outcome != HF_APPLIED)
            test_sleep_ms(5);
    }
    return NULL;
}

static int total(const caller *callers, size_t field)
{
    int sum = 0;

    for (int i = 0; i < THREADS; i++)
        sum += *(const int *)((const char *)&callers[i] + field);
    return sum;
}

/* The member that it is connected to. */
static int connected_to(const world *w)
{
    char where[80];

    for (;;) {
        grpc_member(w->channel, where, sizeof where);
        for (int i = 0; where[0] && i < w->cluster->count; i++) {
            char one[80];

            snprintf(one, sizeof one, "127.0.0.1:%d",
                     w->cluster->members[i].port);
            if (strcmp(one, where) == 0)
                return i;
        }
        test_sleep_ms(5);
    }
}

static void members_lost(void)
{
    world w;
    caller callers[THREADS] = {0};
    int64_t there;
    int counted, unknown;
    char where[80];
    unsigned before;

    open_world(&w, 3);
    for (int i = 0; i < THREADS; i++) {
        callers[i].w = &w;
        callers[i].number = i;
        EXPECT_EQ(
            pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]),
            0);
    }
    for (int round = 0; round < 4; round++) {
        int i = connected_to(&w);

        test_sleep_ms(300);
        before = grpc_member(w.channel, where, sizeof where);
        if (round % 2)
            pause_member(&w, i);
        else
            ensemble_kill(w.cluster, i);
        EXPECT(WAIT_FOR(grpc_member(w.channel, where, sizeof where) > before &&
                            where[0],
                        30000));
        if (round % 2)
            ensemble_continue(w.cluster, i);
        else
            ensemble_restart(w.cluster, i);
        ensemble_await(w.cluster);
    }
    EXPECT(WAIT_FOR(put(w.channel, "b", 3000) == HF_APPLIED, 30000));
    atomic_store(&w.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(callers[i].thread, NULL);
    counted = total(callers, offsetof(caller, counted));
    unknown = total(callers, offsetof(caller, unknown));
    there = count_keys(w.channel, "a", "b");
    if (there < counted || there > counted + unknown)
        FAIL_TEST("%lld there, %d applied, %d unknown", (long long)there,
                  counted, unknown);
    EXPECT(counted > 0 && unknown > 0);
    EXPECT(atomic_load(&w.doubts) >= 4);
    close_world(&w);
}

/* A member that has lost the others refuses at once instead of hanging. */
static void without_a_leader(void)
{
    world w;
    ask a;
    int i;

    open_world(&w, 3);
    i = connected_to(&w);
    ensemble_kill(w.cluster, (i + 1) % 3);
    ensemble_kill(w.cluster, (i + 2) % 3);
    EXPECT(WAIT_FOR((drive(set_put(&a, w.channel, "a", true, 3000)),
                     strstr(a.error.text, "no leader") != NULL),
                    30000));
    EXPECT_EQ(a.outcome, HF_APPLIED);
    EXPECT_EQ(a.error.code, HF_EUNAVAIL);
    ensemble_restart(w.cluster, (i + 1) % 3);
    EXPECT(WAIT_FOR(put(w.channel, "b", 3000) == HF_APPLIED, 40000));
    close_world(&w);
}

static void members_one_by_one(void)
{
    world w;
    hf_error err = {0};
    void *reply = NULL;
    size_t len = 0;

    open_world(&w, 3);
    for (size_t i = 0; i < 3; i++) {
        EXPECT_OK(grpc_ask_member(w.channel, i,
                                  "/etcdserverpb.Maintenance/Status", NULL, 0,
                                  hfd_now() + HF_MS(10000), &reply, &len, &err),
                  err);
        EXPECT(reply != NULL && len > 0);
        hfd_free(reply);
    }
    ensemble_kill(w.cluster, 1);
    EXPECT_CODE(grpc_ask_member(w.channel, 1,
                                "/etcdserverpb.Maintenance/Status", NULL, 0,
                                hfd_now() + HF_MS(2000), &reply, &len, &err),
                HF_EUNAVAIL);
    close_world(&w);
}

/* ---- fork ---- */

static void left_behind(void)
{
    world w;
    pid_t child;
    int status = -1;

    open_world(&w, 1);
    EXPECT_EQ(put(w.channel, "a", 20000), HF_APPLIED);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        grpc_abandon(w.channel);
        _exit(0);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(put(w.channel, "b", 20000), HF_APPLIED);
    EXPECT_EQ(atomic_load(&w.doubts), 0);
    close_world(&w);
}

static const test_case cases[] = {
    TEST(paused),
    TEST(paused_driven),
    TEST(late_undriven),
    TEST(restarted_while_idle),
    TEST(stream_lost),
    TEST_LIMIT(members_lost, 200),
    TEST_LIMIT(without_a_leader, 120),
    TEST(members_one_by_one),
    TEST(left_behind),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "grpc_lost", cases,
                     sizeof cases / sizeof *cases);
}
