/* shop.c - many buyers, several processes, one stock.
 *
 * Each buyer reads how many are left, thinks for a moment, and writes back one
 * less.  The only difference between the three ways is what stands around
 * those three steps: nothing, a mutex (which other processes cannot see), or
 * a holdfast lock.
 *
 * The parent closes the database before it starts a process: neither its
 * connection nor a holdfast session may be carried over a fork. */
#include "shop.h"
#include "stock.h"

#include <errno.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THINK_US 1000

struct counter {
    const char *dir;
    enum way way;
    hf_session *session;    /* of this process */
    pthread_mutex_t *mutex; /* of this process */
    pthread_t id;
};

void folder_path(char *ret, size_t cap, const char *dir, const char *file)
{
    int n = snprintf(ret, cap, "%s/%s", dir, file);

    if (n < 0 || (size_t)n >= cap)
        die("the path '%s/%s' is too long; set TMPDIR shorter", dir, file);
}

void folder_url(char *ret, size_t cap, const char *dir)
{
    char path[400];

    folder_path(path, sizeof path, dir, LOCKS_FILE);
    stock_locks(ret, cap, path);
}

double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

pid_t start_process(void)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        die("cannot fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
    }
    return pid;
}

/* A sale without any protection: what is wrong in it is the gap. */
static void buy_unprotected(stock *s)
{
    int left = stock_left(s);

    if (left <= 0)
        return; /* sold out */
    usleep(THINK_US);
    stock_sell(s, left - 1);
}

static void buy_with_holdfast(stock *s, hf_session *session)
{
    hf_hold *hold;
    hf_error err;
    int left;

    if (hf_lock(session, "/shop/stock", NULL, &hold, &err) != 0)
        die("%s", err.text);
    left = stock_left(s);
    if (left > 0) {
        usleep(THINK_US);
        if (!stock_sell_fenced(s, left - 1, hf_hold_token(hold)))
            die("a sale under the lock was refused: this is a bug");
    }
    if (hf_release(hold, &err) != 0)
        die("%s", err.text);
}

static void *serve_buyers(void *arg)
{
    struct counter *c = arg;
    char path[400];
    stock *s;

    folder_path(path, sizeof path, c->dir, SHOP_FILE);
    s = stock_open(path);
    for (int i = 0; i < BUYERS / (PROCESSES * THREADS); i++)
        switch (c->way) {
        case WITHOUT_LOCK:
            buy_unprotected(s);
            break;
        case PROCESS_LOCK:
            pthread_mutex_lock(c->mutex);
            buy_unprotected(s);
            pthread_mutex_unlock(c->mutex);
            break;
        case HOLDFAST:
            buy_with_holdfast(s, c->session);
            break;
        }
    stock_close(s);
    return NULL;
}

static void run_branch(const char *dir, enum way way)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct counter c[THREADS];
    hf_session *session = NULL;
    hf_error err;
    char url[420];

    folder_url(url, sizeof url, dir);
    if (way == HOLDFAST && hf_open(&session, url, NULL, &err) != 0)
        die("%s", err.text);
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct counter){
            .dir = dir, .way = way, .session = session, .mutex = &mutex};
        if (pthread_create(&c[i].id, NULL, serve_buyers, &c[i]) != 0)
            die("cannot start a thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(c[i].id, NULL);
    hf_close(session);
}

struct sale shop_open_doors(const char *dir, enum way way)
{
    struct sale sale;
    pid_t pid[PROCESSES];
    double begin;
    char path[400];
    stock *s;

    folder_path(path, sizeof path, dir, SHOP_FILE);
    s = stock_open(path);
    stock_fill(s, ITEMS);
    stock_close(s);
    begin = now_s();
    for (int i = 0; i < PROCESSES; i++)
        if ((pid[i] = start_process()) == 0) {
            run_branch(dir, way);
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        if (waitpid(pid[i], &status, 0) != pid[i] || status != 0)
            die("a branch of the shop failed; its own line says why");
    }
    sale.seconds = now_s() - begin;
    s = stock_open(path);
    sale.sold = stock_orders(s);
    sale.left = stock_left(s);
    stock_close(s);
    return sale;
}
