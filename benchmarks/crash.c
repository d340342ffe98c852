/* crash.c - a holder is killed; how long until the next one has the lock?
 *
 * `holdfast run` holds the key around a command that would sleep on.  Another
 * process waits in hf_lock.  The holder gets SIGKILL, which nobody can catch,
 * and the clock runs until the waiter's call returns.  The lease is the
 * default one, half a minute: only a store that notices the death itself can
 * be quick here. */
#include "bench.h"

#include <errno.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY "/bench/crash"
#define MAX_ROUNDS 40

struct board {
    _Atomic bool waits;
    _Atomic int64_t got_ns;
};

struct watch {
    hf_session *session;
    struct board *board;
};

/* Starts the holder and returns once its command runs, so the lock is held. */
static pid_t start_holder(const char *command)
{
    int up[2];
    pid_t pid;
    char c;

    if (pipe(up) != 0)
        bench_die("crash: no pipe: %s", strerror(errno));
    pid = fork_bound();
    if (pid == 0) {
        dup2(up[1], STDOUT_FILENO);
        close(up[0]);
        close(up[1]);
        execl(command, command, "run", KEY, "--", "sh", "-c",
              "echo held; exec sleep 40", (char *)NULL);
        bench_die("crash: cannot run '%s': %s", command, strerror(errno));
    }
    close(up[1]);
    if (read(up[0], &c, 1) != 1)
        bench_die("crash: '%s run' did not start its command", command);
    close(up[0]);
    return pid;
}

/* Tells the parent once the main thread's request is counted as waiting. */
static void *tell_when_waiting(void *arg)
{
    struct watch *w = arg;
    hf_stats stats = {0};

    for (int i = 0; i < 10000 && stats.waiters == 0; i++) {
        sleep_us(1000);
        if (hf_session_stats(w->session, &stats) != 0)
            bench_die("crash: no statistics of the session");
    }
    atomic_store(&w->board->waits, stats.waiters > 0);
    return NULL;
}

static void wait_for_lock(const char *url, struct board *board)
{
    struct watch w = {.board = board};
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 45000};
    pthread_t teller;
    hf_hold *hold;
    hf_error err;

    if (hf_open(&w.session, url, NULL, &err) != 0)
        bench_die("holdfast: %s", err.text);
    if (pthread_create(&teller, NULL, tell_when_waiting, &w) != 0)
        bench_die("cannot start a thread");
    if (hf_lock(w.session, KEY, &opt, &hold, &err) != 0)
        bench_die("crash: the next one did not get it: %s", err.text);
    atomic_store(&board->got_ns, now_ns());
    pthread_join(teller, NULL);
    hf_close(w.session);
}

static double run_round(const struct bench *b, const char *url, unsigned *seed)
{
    struct board *board = shared_memory(sizeof *board);
    pid_t holder = start_holder(b->command), waiter = fork_bound();
    int64_t killed;
    double ms;

    if (waiter == 0) {
        wait_for_lock(url, board);
        _exit(0);
    }
    for (int i = 0; i < 10000 && !atomic_load(&board->waits); i++)
        sleep_us(1000);
    if (!atomic_load(&board->waits))
        bench_die("crash: the next one did not begin to wait");
    sleep_us(20000 + rand_r(seed) % 10000);
    killed = now_ns();
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    wait_done(waiter);
    ms = (double)(atomic_load(&board->got_ns) - killed) / 1e6;
    if (ms < 0)
        bench_die("crash: granted while the holder was alive: two holders");
    unshare_memory(board, sizeof *board);
    return ms;
}

void bench_crash(const struct bench *b)
{
    const int rounds = b->quick ? 8 : MAX_ROUNDS;
    double ms[MAX_ROUNDS];
    char url[512];
    unsigned seed = 1;

    holdfast_url(url, sizeof url, b->dir);
    setenv("HOLDFAST_URL", url, 1);
    for (int r = 0; r < rounds; r++)
        ms[r] = run_round(b, url, &seed);
    row_print(b, &(struct row){"crash", "kill -9 to the next holder, p50", "ms",
                               median(ms, (size_t)rounds), NULL, 0,
                               VALUE_AT_MOST, 50});
    row_print(b, &(struct row){"crash", "kill -9 to the next holder, max", "ms",
                               quantile(ms, (size_t)rounds, 1.0), NULL, 0,
                               VALUE_AT_MOST, 50});
}
