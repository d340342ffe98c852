/* oversell.c - the demonstration: why a shop needs a lock, and which one.
 *
 * Part 1 sells one stock three ways and compares the books.  Part 2 pauses a
 * holder past its lease and lets it come back.  The status is 0 only if all
 * of it was seen: the two poor ways oversold, holdfast was exact, and the late
 * write was refused.  A poor way that happened to be lucky gets a few more
 * chances; holdfast gets one. */
#include "shop.h"
#include "stock.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANCES 3

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static bool is_exact(struct sale s)
{
    return s.sold == ITEMS && s.left == 0;
}

static void print_sale(const char *name, struct sale s)
{
    printf("  %-28s %5d %10d %10d    ", name, s.sold, BUYERS - s.sold, s.left);
    if (s.sold > ITEMS)
        printf("OVERSOLD: %d sold that were not there\n", s.sold - ITEMS);
    else
        printf("%s\n", is_exact(s) ? "exact" : "WRONG");
    fflush(stdout);
}

/* A poor way, until it shows what is wrong with it. */
static bool show_poor(const char *dir, const char *name, enum way way)
{
    struct sale s = shop_open_doors(dir, way);

    for (int i = 1; i < CHANCES && s.sold <= ITEMS; i++)
        s = shop_open_doors(dir, way);
    print_sale(name, s);
    return s.sold > ITEMS;
}

static bool show_sales(const char *dir)
{
    bool free_for_all, mutex;
    struct sale ours;

    printf("1. %d buyers, %d items.  %d processes of %d threads; each buyer "
           "reads\n   the stock, thinks for a millisecond, writes back one "
           "less.\n\n",
           BUYERS, ITEMS, PROCESSES, THREADS);
    printf("  %-28s %5s %10s %10s    %s\n", "protected by", "sold", "sent away",
           "still left", "the books are");
    free_for_all = show_poor(dir, "nothing", WITHOUT_LOCK);
    mutex = show_poor(dir, "a mutex in each process", PROCESS_LOCK);
    ours = shop_open_doors(dir, HOLDFAST);
    print_sale("holdfast", ours);
    return free_for_all && mutex && is_exact(ours);
}

static bool show_pause(const char *dir)
{
    struct pause p;
    bool seen = false;

    printf(
        "\n2. A holder is paused past its lease of %d s, and comes back.\n\n",
        LEASE_MS / 1000);
    fflush(stdout);
    for (int i = 0; i < CHANCES && !seen; i++)
        seen = pause_holder(dir, &p);
    if (!seen) {
        puts("  the next one was not granted the lock");
        return false;
    }
    printf(
        "  first    takes the lock (token %llu), reads: %d left; is stopped\n"
        "  second   gets the lock %.1f s later (token %llu), sells one: %d "
        "left\n"
        "  first    runs again, knows nothing of it, writes: %d left\n"
        "             where tokens are not compared   %-9s %d sold, %d "
        "left: %s\n"
        "             %s %-16llu  %-9s %d sold, %d left: %s\n"
        "  first    gives the lock back and hears: %s\n",
        (unsigned long long)p.first_token, ITEMS_PAUSED, p.next_after_s,
        (unsigned long long)p.second_token, ITEMS_PAUSED - 1, ITEMS_PAUSED - 1,
        p.plain_accepted ? "accepted:" : "refused:", p.plain_sold, p.plain_left,
        p.plain_sold + p.plain_left == ITEMS_PAUSED ? "right" : "WRONG",
        stock_fence, (unsigned long long)p.first_token,
        p.fenced_accepted ? "accepted:" : "refused:", p.fenced_sold,
        p.fenced_left,
        p.fenced_sold + p.fenced_left == ITEMS_PAUSED ? "right" : "WRONG",
        p.told);
    return p.second_token > p.first_token && !p.fenced_accepted &&
           p.fenced_sold + p.fenced_left == ITEMS_PAUSED;
}

/* All of it in a process of its own: however that ends, by a failure or by
 * Ctrl-C, the folder is removed. */
static int run_demo(const char *dir)
{
    bool sales = show_sales(dir), pause = show_pause(dir);

    printf("\n%s\n",
           sales && pause
               ? "Verdict: only holdfast sold exactly what was there, and the "
                 "late write was refused."
               : "Verdict: this run did not show what it should; see above.");
    fflush(stdout);
    return sales && pause ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    int status = 0;
    char dir[300];
    pid_t pid;

    if (argc > 2 || !stock_choose(argc > 1 ? argv[1] : NULL))
        die("usage: oversell [URL of the locks], "
            "or oversell-postgres postgres://HOST/DATABASE");
    folder_path(dir, sizeof dir, tmp != NULL && *tmp ? tmp : "/tmp",
                "holdfast-oversell-XXXXXX");
    if (mkdtemp(dir) == NULL)
        die("cannot make a folder like '%s': %s", dir, strerror(errno));
    pid = start_process();
    if (pid == 0)
        _exit(run_demo(dir));
    signal(SIGINT, SIG_IGN);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    usleep(20 * 1000); /* its children die with it, a moment later */
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    stock_leave_nothing();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
