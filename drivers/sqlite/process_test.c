/* process_test.c - what only the SQLite store has, part two: its processes.
 *
 * The kernel knows at once that a process is gone; so leases here are half a
 * minute, and everything must happen long before.  Waiting is for events with a
 * generous bound, never for a speed. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { SOON_MS = 8000 }; /* the lease is 30 000 */

static const char *store_url(void)
{
    static char url[512];

    snprintf(url, sizeof url, "sqlite:%s/a.db", test_folder());
    return url;
}

static hf_session *open_store(void)
{
    hf_session *s;
    hf_error err;

    EXPECT_OK(hf_open(&s, store_url(), NULL, &err), err);
    return s;
}

static hf_hold *take(hf_session *s, const char *key, int64_t wait_ms)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = wait_ms};
    hf_hold *hold;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    return hold;
}

typedef struct child {
    pid_t pid;
    int from; /* what it says */
    int to;   /* a byte lets it go */
} child;

static int go_fd; /* the child's end of `to` */

/* A process that runs act and then sleeps until it is killed; act says one byte
 * when it is ready.  Children are started before this process has threads, so
 * those that must come later wait to be let go. */
static child start_child(void (*act)(int to))
{
    int ends[2], go[2];
    child c;

    EXPECT(pipe(ends) == 0 && pipe(go) == 0);
    c.pid = fork();
    EXPECT(c.pid >= 0);
    if (c.pid == 0) {
        close(ends[0]);
        close(go[1]);
        go_fd = go[0];
        act(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    close(go[0]);
    c.from = ends[0];
    c.to = go[1];
    return c;
}

static void say(int to)
{
    EXPECT(write(to, "x", 1) == 1);
}

static void await_word(child *c)
{
    char word;

    EXPECT(read(c->from, &word, 1) == 1);
}

static void let_go(child *c)
{
    EXPECT(write(c->to, "x", 1) == 1);
    await_word(c);
}

static void kill_child(child *c)
{
    EXPECT(kill(c->pid, SIGKILL) == 0);
}

static void reap_child(child *c)
{
    EXPECT(waitpid(c->pid, NULL, 0) == c->pid);
    close(c->from);
    close(c->to);
}

static void hold_key(int to)
{
    take(open_store(), "k", 0);
    say(to);
}

static void wait_for_key(int to)
{
    hf_session *s;
    hf_request *request;
    hf_error err;
    char word;

    EXPECT(read(go_fd, &word, 1) == 1);
    s = open_store();
    EXPECT_OK(hf_lock_start(s, "k", NULL, NULL, &request, &err), err);
    say(to);
}

static int count_all(const hf_entry_info *entry, void *user)
{
    int *counts = user;

    counts[entry->granted ? 0 : 1]++;
    return 0;
}

static int waiting(hf_session *s)
{
    int counts[2] = {0};
    hf_error err;

    EXPECT_OK(hf_list(s, "k", count_all, counts, &err), err);
    return counts[1];
}

/* Killed while somebody is parked behind it; the zombie stays a zombie until
 * the end, which must not matter. */
static void dead_holder(void)
{
    child c = start_child(hold_key);
    hf_session *s;
    hf_hold *hold;
    pid_t killer;

    await_word(&c);
    s = open_store();
    killer = fork();
    EXPECT(killer >= 0);
    if (killer == 0) {
        test_sleep_ms(200);
        kill(c.pid, SIGKILL);
        _exit(0);
    }
    hold = take(s, "k", SOON_MS);
    EXPECT(hf_hold_token(hold) > 1);
    hf_close(s);
    EXPECT(waitpid(killer, NULL, 0) == killer);
    reap_child(&c);
}

/* Killed before the newcomer came: not even a wait is needed. */
static void dead_before_try(void)
{
    child c = start_child(hold_key);
    hf_session *s = open_store();
    hf_hold *hold;

    await_word(&c);
    EXPECT_CODE(hf_try_lock(s, "k", NULL, &hold, NULL), HF_EBUSY);
    kill_child(&c);
    reap_child(&c);
    EXPECT_CODE(hf_try_lock(s, "k", NULL, &hold, NULL), 0);
    hf_close(s);
}

/* Killed waiters are passed over, the head and one in the middle. */
static void dead_waiters(void)
{
    child first = start_child(wait_for_key);
    child second = start_child(wait_for_key);
    hf_session *s = open_store(), *t = open_store();
    hf_hold *hold = take(s, "k", 0);
    hf_request *request;
    hf_result result;
    hf_error err;

    let_go(&first);
    EXPECT(WAIT_FOR(waiting(s) == 1, SOON_MS));
    let_go(&second);
    EXPECT(WAIT_FOR(waiting(s) == 2, SOON_MS));
    EXPECT_OK(hf_lock_start(t, "k", NULL, NULL, &request, &err), err);
    EXPECT(WAIT_FOR(waiting(s) == 3, SOON_MS));
    kill_child(&first);
    kill_child(&second);
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT(WAIT_FOR(hf_collect(t, &result) == 1, SOON_MS));
    EXPECT_CODE(result.error.code, 0);
    hf_close(s);
    hf_close(t);
    reap_child(&first);
    reap_child(&second);
}

/* The new holder dies after it was granted: its successor, which waited behind
 * the old one, must notice. */
static void dead_after_handover(void)
{
    child next = start_child(wait_for_key);
    hf_session *s = open_store(), *t = open_store();
    hf_hold *hold = take(s, "k", 0);
    hf_request *request;
    hf_result result;
    hf_error err;

    let_go(&next);
    EXPECT(WAIT_FOR(waiting(s) == 1, SOON_MS));
    EXPECT_OK(hf_lock_start(t, "k", NULL, NULL, &request, &err), err);
    EXPECT(WAIT_FOR(waiting(s) == 2, SOON_MS));
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_EQ(waiting(s), 1);
    EXPECT_EQ(hf_collect(t, &result), 0);
    kill_child(&next);
    EXPECT(WAIT_FOR(hf_collect(t, &result) == 1, SOON_MS));
    EXPECT_CODE(result.error.code, 0);
    hf_close(s);
    hf_close(t);
    reap_child(&next);
}

static atomic_int *heir_pid;

/* Holds, and has a child of its own that inherits the descriptor, as the
 * command of `holdfast run` does. */
static void hold_with_heir(int to)
{
    hf_session *s = open_store();
    int life;
    pid_t pid;

    take(s, "k", 0);
    life = dup(hf_session_life_fd(s));
    EXPECT(life >= 0);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        for (;;)
            pause();
    close(life);
    atomic_store(heir_pid, pid);
    say(to);
}

static void heir_keeps_the_lock(void)
{
    hf_session *s;
    hf_hold *hold;
    pid_t killer;
    child c;

    heir_pid = mmap(NULL, sizeof *heir_pid, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(heir_pid != MAP_FAILED);
    c = start_child(hold_with_heir);
    await_word(&c);
    kill_child(&c);
    reap_child(&c);
    s = open_store();
    for (int i = 0; i < 10; i++) {
        EXPECT_CODE(hf_try_lock(s, "k", NULL, &hold, NULL), HF_EBUSY);
        test_sleep_ms(20);
    }
    /* The end of the heir is noticed by one who already waits. */
    killer = fork();
    EXPECT(killer >= 0);
    if (killer == 0) {
        test_sleep_ms(200);
        kill(atomic_load(heir_pid), SIGKILL);
        _exit(0);
    }
    take(s, "k", SOON_MS);
    hf_close(s);
    EXPECT(waitpid(killer, NULL, 0) == killer);
}

static void hold_and_close_all(int to)
{
    take(open_store(), "k", 0);
    for (int fd = 3; fd < 64; fd++)
        if (fd != to)
            close(fd);
    say(to);
}

/* A program that closes all descriptors loses the proof that it lives, but it
 * does live: nobody may take its lock before the lease. */
static void closed_descriptors(void)
{
    child c = start_child(hold_and_close_all);
    hf_session *s = open_store();
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 300};
    hf_hold *hold;

    await_word(&c);
    EXPECT_CODE(hf_try_lock(s, "k", NULL, &hold, NULL), HF_EBUSY);
    EXPECT_CODE(hf_lock(s, "k", &opt, &hold, NULL), HF_ETIMEDOUT);
    kill_child(&c);
    take(s, "k", SOON_MS);
    hf_close(s);
    reap_child(&c);
}

typedef struct arena {
    atomic_int inside, overlaps;
    atomic_ullong last, fell;
} arena;

static arena *ring;

static void fight(int to)
{
    hf_session *s = open_store();

    for (int i = 0; i < 150; i++) {
        hf_hold *hold = take(s, "k", 60000);
        unsigned long long token = hf_hold_token(hold);
        hf_error err;

        if (atomic_fetch_add(&ring->inside, 1) != 0)
            atomic_fetch_add(&ring->overlaps, 1);
        if (atomic_exchange(&ring->last, token) >= token)
            atomic_fetch_add(&ring->fell, 1);
        atomic_fetch_sub(&ring->inside, 1);
        EXPECT_OK(hf_release(hold, &err), err);
    }
    hf_close(s);
    say(to);
}

/* Four processes on one key; one more is killed in the middle of it. */
static void processes_fight(void)
{
    child c[5];

    ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(ring != MAP_FAILED);
    c[4] = start_child(wait_for_key);
    for (int i = 0; i < 4; i++)
        c[i] = start_child(fight);
    let_go(&c[4]);
    kill_child(&c[4]);
    for (int i = 0; i < 4; i++) {
        await_word(&c[i]);
        kill_child(&c[i]);
    }
    for (int i = 0; i < 5; i++)
        reap_child(&c[i]);
    EXPECT_SAFE(ring->overlaps == 0);
    EXPECT_SAFE(ring->fell == 0);
}

/* Nothing stays of processes that died: the next to open clears it away. */
static void nothing_stays(void)
{
    child c = start_child(hold_key), d;
    int counts[2] = {0};
    hf_session *s;
    hf_error err;

    await_word(&c);
    d = start_child(wait_for_key);
    let_go(&d);
    kill_child(&c);
    kill_child(&d);
    reap_child(&c);
    reap_child(&d);
    s = open_store();
    EXPECT_OK(hf_list(s, NULL, count_all, counts, &err), err);
    EXPECT_EQ(counts[0] + counts[1], 0);
    hf_close(s);
}

/* Sessions that open after a death must not take the dead one's slot: its free
 * byte is the evidence that others need. */
static void evidence_stays(void)
{
    child c = start_child(hold_key);
    hf_session *idle[5], *s;

    await_word(&c);
    kill_child(&c);
    for (int i = 0; i < 5; i++)
        idle[i] = open_store();
    s = open_store();
    take(s, "k", SOON_MS);
    hf_close(s);
    for (int i = 0; i < 5; i++)
        hf_close(idle[i]);
    reap_child(&c);
}

/* Commands that come and go one after the other leave a WAL that is short: the
 * next one reads all of it. */
static void wal_stays_short(void)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof path, "%s/a.db-wal", test_folder());
    for (int i = 0; i < 60; i++) {
        hf_session *s = open_store();
        hf_error err;

        EXPECT_OK(hf_release(take(s, "k", SOON_MS), &err), err);
        hf_close(s);
        EXPECT(stat(path, &st) == 0);
        EXPECT(st.st_size < (off_t)100 * 1048);
    }
}

static const test_case cases[] = {
    TEST(dead_holder),         TEST(dead_before_try),
    TEST(dead_waiters),        TEST(dead_after_handover),
    TEST(heir_keeps_the_lock), TEST(closed_descriptors),
    TEST(processes_fight),     TEST(nothing_stays),
    TEST(evidence_stays),      TEST(wal_stays_short),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sqlite_process", cases,
                     sizeof cases / sizeof cases[0]);
}
