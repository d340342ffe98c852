/* command.c - what does `holdfast run KEY -- true` cost a shell script?
 *
 * Measured against `flock FILE true`, run by run in turn, from the start of
 * the process to its end, with everything pinned to one core.  Nobody else
 * has the store open, so each run opens it first and closes it last: the
 * dearest case for holdfast, and the usual one for a cron job. */
#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RUNS 400

extern char **environ;

double run_ms(const char *const argv[])
{
    int64_t begin = now_ns();
    pid_t pid;
    int status, rc;

    /* The words are not written to; the declaration is older than const. */
    rc = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    if (rc != 0)
        bench_die("cannot run '%s': %s", argv[0], strerror(rc));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("cannot wait for '%s': %s", argv[0], strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die("'%s' failed (status %#x); run it by hand to see why",
                  argv[0], status);
    return (double)(now_ns() - begin) / 1e6;
}

void bench_command(const struct bench *b)
{
    const int runs = b->quick ? 60 : MAX_RUNS;
    double ours[MAX_RUNS], theirs[MAX_RUNS];
    char url[512], file[512];
    const char *const run[] = {b->command, "run", "bench", "--", "true", NULL};
    const char *const flock[] = {"flock", file, "true", NULL};
    size_t n = (size_t)runs;

    holdfast_url(url, sizeof url, b->dir);
    path_in(file, sizeof file, b->dir, "flock");
    setenv("HOLDFAST_URL", url, 1);
    pin_to(core_count() - 1);
    for (int i = 0; i < 3; i++) {
        run_ms(run);
        run_ms(flock);
    }
    for (int i = 0; i < runs; i++) {
        ours[i] = run_ms(run);
        theirs[i] = run_ms(flock);
    }
    row_print(b, &(struct row){"command", "holdfast run KEY -- true, p50", "ms",
                               median(ours, n), "flock FILE true",
                               median(theirs, n), RATIO_AT_MOST, 1.5});
}
