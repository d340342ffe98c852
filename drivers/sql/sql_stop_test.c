/* sql_stop_test.c - clients that are stopped at any instant, for longer than
 * their lease, while others go on.
 *
 * A handful of processes take one lock again and again; one after the other is
 * stopped wherever it happens to be (in a statement, between two, holding) and
 * goes on when its lease is long over.  What is guarded is a page of shared
 * memory with a fence: who says that he holds must be alone there, who is
 * refused by the fence must have lost, and tokens that get in only rise. */
#include <sys/mman.h>

#include "sql_fault_test.h"

enum { WORKERS = 5, STOPS = 24, LEASE_MS = 1000 };

static struct {
    atomic_int inside; /* the worker that came in last; 0: nobody */
    atomic_ullong top; /* the largest token that was let in */
    atomic_int acts, refused, lost, wrong;
    atomic_bool end;
} * page;

static void say_wrong(const char *what)
{
    fprintf(stderr, "unsafe: worker %d %s\n", (int)getpid(), what);
    atomic_fetch_add(&page->wrong, 1);
}

/* Let in unless a larger token was there. */
static bool pass_fence(uint64_t token)
{
    unsigned long long top = atomic_load(&page->top);

    while (token > top) {
        if (atomic_compare_exchange_weak(&page->top, &top, token))
            return true;
    }
    return false;
}

/* What is there is read first and our state after it: somebody else in there,
 * and afterwards still ours, is two holders. */
static void act(hf_hold *hold, int me)
{
    if (!pass_fence(hf_hold_token(hold))) {
        atomic_fetch_add(&page->refused, 1);
        if (hf_hold_check(hold, NULL) == 0)
            say_wrong("was refused, and holds");
        return;
    }
    atomic_store(&page->inside, me);
    for (int i = 0; i < 4; i++) {
        int who = atomic_load(&page->inside);

        if (hf_hold_check(hold, NULL) != 0)
            return;
        if (who != me)
            say_wrong("holds, and is not alone");
        test_sleep_ms(1);
    }
    atomic_fetch_add(&page->acts, 1);
}

static void work(const char *url, int me)
{
    hf_session *s = open_at(url, LEASE_MS);

    while (!atomic_load(&page->end)) {
        hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 5000};
        hf_hold *hold = NULL;
        hf_error err;
        int code = hf_lock(s, "k", &opt, &hold, &err);

        if (code != 0) /* its session was over, or a long wait: again */
            continue;
        act(hold, me);
        if (hf_release(hold, NULL) != 0)
            atomic_fetch_add(&page->lost, 1);
    }
    hf_close(s);
}

static void stop_one(pid_t pid, unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    test_sleep_ms((int)(*seed >> 16) % 40);
    EXPECT(kill(pid, SIGSTOP) == 0);
}

/* A tomb that was written when its session was over already is left to whoever
 * tidies a queue that was idle for minutes. */
static void tidy_up(sql_server *s, const char *url)
{
    enum { TIDY_RENEWALS = 20 };
    party *p = party_open(url, LONG_MS);

    sql_server_ask(s, "UPDATE hf_queue SET used_us = 1");
    for (int i = 0; i < TIDY_RENEWALS; i++)
        EXPECT_OK(party_renew(p, LONG_MS), p->err);
    party_close(p);
}

static void stopped_clients(void)
{
    world w;
    char url[400];
    pid_t pids[WORKERS];
    unsigned seed = (unsigned)getpid();
    sql_server *s = sql_server_start(on_kind(), NULL);

    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    write_url(url, s->port, "");
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        EXPECT(pids[i] >= 0);
        if (pids[i] == 0) {
            work(url, i + 1);
            _exit(0);
        }
    }
    AWAIT(atomic_load(&page->acts) > 20);
    for (int i = 0; i < STOPS; i += 2) {
        int before = atomic_load(&page->acts);

        stop_one(pids[i % WORKERS], &seed);
        stop_one(pids[(i + 1) % WORKERS], &seed);
        test_sleep_ms(LEASE_MS + 300);
        AWAIT(atomic_load(&page->acts) > before); /* the others go on */
        kill(pids[i % WORKERS], SIGCONT);
        kill(pids[(i + 1) % WORKERS], SIGCONT);
        EXPECT_EQ(atomic_load(&page->wrong), 0);
    }
    atomic_store(&page->end, true);
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;

        EXPECT(waitpid(pids[i], &status, 0) == pids[i]);
        EXPECT_EQ(status, 0);
    }
    fprintf(stderr, "%d acts, %d refused, %d lost\n", page->acts, page->refused,
            page->lost);
    EXPECT_EQ(page->wrong, 0);
    tidy_up(s, url);
    w = (world){.s = s, .r = relay_start(s->port)};
    expect_clean(&w);
}

static const test_case cases[] = {TEST_LIMIT(stopped_clients, 180)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sql_stop", cases,
                     sizeof cases / sizeof *cases);
}
