/* paused.c - the holder that comes back too late.
 *
 *     first    takes the lock, reads the stock, is stopped (SIGSTOP)
 *     second   waits, gets the lock when the lease has run out, sells
 *     first    runs again (SIGCONT), knows nothing, writes what it worked out
 *
 * The first one writes twice: into a database that takes what it is given,
 * and into one that compares tokens.  It does not ask holdfast first, since
 * the pause could as well have come between the question and the write. */
#include "shop.h"
#include "stock.h"

#include <errno.h>
#include <holdfast/holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY "/shop/paused"
#define PLAIN_FILE "plain.db"
#define FENCED_FILE "fenced.db"
#define PATIENCE_MS 6000

struct shelves {
    stock *plain, *fenced;
};

static struct shelves open_shelves(const char *dir)
{
    struct shelves s;
    char path[400];

    folder_path(path, sizeof path, dir, PLAIN_FILE);
    s.plain = stock_open(path);
    folder_path(path, sizeof path, dir, FENCED_FILE);
    s.fenced = stock_open(path);
    return s;
}

static void close_shelves(struct shelves s)
{
    stock_close(s.plain);
    stock_close(s.fenced);
}

static hf_session *open_session(const char *dir)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = LEASE_MS};
    hf_session *s;
    hf_error err;
    char url[420];

    folder_url(url, sizeof url, dir);
    if (hf_open(&s, url, &opt, &err) != 0)
        die("%s", err.text);
    return s;
}

/* The one that is paused.  `held` says that it holds and has read; `resume`
 * ends when it has been woken. */
static void run_first(const char *dir, struct pause *ret, int held, int resume)
{
    hf_session *session = open_session(dir);
    struct shelves s = open_shelves(dir);
    hf_hold *hold;
    hf_error err;
    int plain, fenced;
    char c;

    if (hf_lock(session, KEY, NULL, &hold, &err) != 0)
        die("%s", err.text);
    ret->first_token = hf_hold_token(hold);
    plain = stock_left(s.plain);
    fenced = stock_left(s.fenced);
    if (write(held, "x", 1) != 1 || read(resume, &c, 1) != 1)
        die("the first holder has lost its parent");
    stock_sell(s.plain, plain - 1);
    ret->plain_accepted = true;
    ret->fenced_accepted =
        stock_sell_fenced(s.fenced, fenced - 1, ret->first_token);
    snprintf(ret->told, sizeof ret->told, "%s",
             hf_strerror(hf_release(hold, NULL)));
    close_shelves(s);
    hf_close(session);
}

/* Status 3: not granted in time. */
static int run_second(const char *dir, struct pause *ret)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
    hf_session *session = open_session(dir);
    struct shelves s = open_shelves(dir);
    hf_hold *hold;
    hf_error err;
    int rc = hf_lock(session, KEY, &opt, &hold, &err);

    if (rc == HF_ETIMEDOUT)
        return 3;
    if (rc != 0)
        die("%s", err.text);
    ret->second_token = hf_hold_token(hold);
    stock_sell(s.plain, stock_left(s.plain) - 1);
    if (!stock_sell_fenced(s.fenced, stock_left(s.fenced) - 1,
                           ret->second_token))
        die("the second holder's write was refused: this is a bug");
    if (hf_release(hold, &err) != 0)
        die("%s", err.text);
    close_shelves(s);
    hf_close(session);
    return 0;
}

static int await_end(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        die("a process of the demonstration was killed");
    return WEXITSTATUS(status);
}

static void await_stop(pid_t pid)
{
    int status;

    if (kill(pid, SIGSTOP) != 0 || waitpid(pid, &status, WUNTRACED) != pid ||
        !WIFSTOPPED(status))
        die("the first holder could not be stopped");
}

static void fill_and_read(const char *dir, struct pause *ret, bool fill)
{
    struct shelves s = open_shelves(dir);

    if (fill) {
        stock_fill(s.plain, ITEMS_PAUSED);
        stock_fill(s.fenced, ITEMS_PAUSED);
    }
    ret->plain_left = stock_left(s.plain);
    ret->plain_sold = stock_orders(s.plain);
    ret->fenced_left = stock_left(s.fenced);
    ret->fenced_sold = stock_orders(s.fenced);
    close_shelves(s);
}

/* Both holders, with the pause between them; 0, or the second's status. */
static int play(const char *dir, struct pause *ret)
{
    int held[2], resume[2], status;
    pid_t first, second;
    double paused;
    char c;

    if (pipe(held) != 0 || pipe(resume) != 0)
        die("no pipe: %s", strerror(errno));
    if ((first = start_process()) == 0) {
        run_first(dir, ret, held[1], resume[0]);
        _exit(0);
    }
    close(held[1]);
    if (read(held[0], &c, 1) != 1)
        die("the first holder failed; its own line says why");
    await_stop(first);
    paused = now_s();
    if ((second = start_process()) == 0)
        _exit(run_second(dir, ret));
    status = await_end(second);
    ret->next_after_s = now_s() - paused;
    if (kill(first, SIGCONT) != 0 || write(resume[1], "x", 1) != 1)
        die("the first holder could not be woken");
    if (await_end(first) != 0)
        die("the first holder failed; its own line says why");
    close(held[0]);
    close(resume[0]);
    close(resume[1]);
    return status;
}

bool pause_holder(const char *dir, struct pause *ret)
{
    struct pause *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    if (shared == MAP_FAILED)
        die("no shared memory: %s", strerror(errno));
    fill_and_read(dir, shared, true);
    status = play(dir, shared);
    fill_and_read(dir, shared, false);
    *ret = *shared;
    munmap(shared, sizeof *shared);
    if (status != 0 && status != 3)
        die("the second holder failed; its own line says why");
    return status == 0;
}
