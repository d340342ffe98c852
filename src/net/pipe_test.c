/* pipe_test.c - many threads on one connection: each has its own answer, and
 * the one who reads is always somebody. */
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

#include <sys/wait.h>
#include <unistd.h>

#include "net/pipe_client.h"

enum { THREADS = 16, ROUNDS = 200 };

typedef struct worker {
    client *c;
    int index, wait_us; /* of one wait; 0: long enough */
    const char *more;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    unsigned seed = (unsigned)w->index;

    for (int i = 0; i < (w->more ? 3 : ROUNDS); i++) {
        call mine = {0};
        int tries = 0;

        EXPECT(ask(w->c, &mine, w->index * 1000 + i, w->more));
        while (!hf__pipe_wait(
            w->c->pipe, &mine.waiter,
            hfd_now() + (w->wait_us ? 1000L * (rand_r(&seed) % w->wait_us)
                                    : HF_MS(20000)))) {
            EXPECT(w->wait_us && ++tries < 1000000);
        }
        EXPECT(hf__waiter_woken(&mine.waiter));
    }
    return NULL;
}

static void work_all(client *c, int wait_us, const char *more)
{
    worker workers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (worker){.c = c, .index = i, .wait_us = wait_us, .more = more};
        EXPECT_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]),
                  0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void many_threads(void)
{
    client c = {0};
    peer p = {0};

    client_to(&c, &p, false);
    work_all(&c, 0, NULL);
    EXPECT_EQ(atomic_load(&c.answers), THREADS * ROUNDS);
    client_close(&c);
    peer_stop(&p);
}

/* Waits end at all moments, beside answers and hand-overs. */
static void impatient_threads(void)
{
    client c = {0};
    peer p = {.each_us = 200};

    client_to(&c, &p, false);
    work_all(&c, 300, NULL);
    EXPECT_EQ(atomic_load(&c.answers), THREADS * ROUNDS);
    client_close(&c);
    peer_stop(&p);
}

static void beside_a_keeper(void)
{
    client c = {0};
    peer p = {.each_us = 100};

    for (int patient = 0; patient < 2; patient++) {
        c = (client){0};
        client_to(&c, &p, patient);
        keeper_start(&c);
        for (int i = 0; i < 50; i++)
            ask_attended(&c, 100000 + i);
        work_all(&c, 500, NULL);
        for (int i = 0; i < 50; i++)
            ask_attended(&c, 100100 + i);
        EXPECT(WAIT_FOR(atomic_load(&c.attended) == 100, 20000));
        keeper_stop(&c);
        client_close(&c);
        peer_stop(&p);
    }
}

static void over_tls(void)
{
    server *s = server_start(&(server_options){.tls = true});
    char ca[300];
    hf__tls_options options = {.ca_file = ca};
    hf__address address = {.host = "localhost", .port = (uint16_t)s->tls_port};
    client c = {.format = "EVAL \"return %ld %s\" 0\r\n"};
    hf__tls *tls = NULL;
    hf_error err = {0};

    snprintf(ca, sizeof ca, "%s/ca.pem", test_certificates());
    EXPECT_OK(hf__tls_new(&tls, &options, &err), err);
    client_open(&c, &address, tls, false);
    keeper_start(&c);
    for (int i = 0; i < 50; i++)
        ask_attended(&c, i);
    work_all(&c, 0, NULL);
    EXPECT(WAIT_FOR(atomic_load(&c.attended) == 50, 20000));
    keeper_stop(&c);
    client_close(&c);
    hf__tls_free(tls);
    server_stop(s);
}

/* More than the socket takes: it goes out later, whole and in order. */
static void big_sends(void)
{
    enum { MUCH = 700 * 1000 };
    char *more = malloc(MUCH + 1);
    client c = {0};
    peer p = {.first_ms = 100};

    memset(more, 'x', MUCH);
    more[MUCH] = 0;
    client_to(&c, &p, false);
    keeper_start(&c);
    work_all(&c, 0, more);
    EXPECT_EQ(atomic_load(&c.answers), THREADS * 3);
    keeper_stop(&c);
    client_close(&c);
    peer_stop(&p);
    free(more);
}

/* ---- Hand-over, step by step ---- */

static void hand_over(void)
{
    client c = {0};
    peer p = {.hold_after = 1};
    waiting a = {0}, b = {0}, late = {0};

    client_to(&c, &p, false);
    EXPECT(ask(&c, &a.mine, 1, NULL));
    EXPECT(ask(&c, &late.mine, 2, NULL));
    EXPECT(ask(&c, &b.mine, 3, NULL));
    wait_start(&late, &c, 60);
    wait_start(&b, &c, 20000);
    wait_start(&a, &c, 20000);
    pthread_join(a.thread, NULL);
    EXPECT(a.answer);
    pthread_join(late.thread, NULL);
    EXPECT(!late.answer);
    EXPECT(hfd_now() >= late.until);
    EXPECT(!atomic_load(&b.done));
    atomic_store(&p.go, true);
    pthread_join(b.thread, NULL);
    EXPECT(b.answer);
    EXPECT(hf__waiter_woken(&late.mine.waiter));
    client_close(&c);
    peer_stop(&p);
}

/* One who reads and one who sleeps, woken from outside. */
static void woken_from_outside(void)
{
    client c = {0};
    peer p = {0};
    waiting a = {0}, b = {0};

    client_to(&c, &p, true);
    hf__pipe_attend(c.pipe, 1);
    wait_start(&a, &c, 30000);
    wait_start(&b, &c, 30000);
    hf__pipe_wake(c.pipe, &a.mine.waiter);
    pthread_join(a.thread, NULL);
    EXPECT(a.answer);
    EXPECT(hfd_now() < a.until - HF_MS(10000));
    EXPECT(!atomic_load(&b.done));
    hf__pipe_wake(c.pipe, &b.mine.waiter);
    pthread_join(b.thread, NULL);
    EXPECT(b.answer);
    EXPECT(hfd_now() < b.until - HF_MS(10000));
    client_close(&c);
    peer_stop(&p);
}

/* A child that abandons the pipe says nothing and takes nothing away. */
static void forked(void)
{
    client c = {0};
    peer p = {0};
    call mine = {0};
    int status;
    pid_t pid;

    client_to(&c, &p, true);
    pid = fork();
    if (pid == 0) {
        hf__pipe_abandon(c.pipe);
        _exit(0);
    }
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    EXPECT(ask(&c, &mine, 5, NULL));
    EXPECT(hf__pipe_wait(c.pipe, &mine.waiter, hfd_now() + HF_MS(20000)));
    EXPECT_EQ(atomic_load(&c.answers), 1);
    client_close(&c);
    peer_stop(&p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(many_threads),       TEST(impatient_threads),
        TEST(beside_a_keeper),    TEST(over_tls),
        TEST(big_sends),          TEST(hand_over),
        TEST(woken_from_outside), TEST(forked)};

    return run_tests(argc, argv, "pipe", cases, sizeof cases / sizeof *cases);
}
