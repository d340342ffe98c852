/* side_holdfast.c - holdfast as the measured side: one session a process, on
 * a SQLite file or the server of a URL, through the public header only and
 * with its defaults. */
#include "bench.h"

#include <errno.h>
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct holdfast_thread {
    hf_session *session;
    hf_hold *hold;
};

void holdfast_url(char *ret, size_t cap, const char *where)
{
    bool is_url =
        strstr(where, "://") != NULL || strncmp(where, "odbc:", 5) == 0;
    int n = is_url ? snprintf(ret, cap, "%s", where)
                   : snprintf(ret, cap, "sqlite:%s/locks.db", where);

    if (n < 0 || (size_t)n >= cap)
        bench_die("the path '%s' is too long; set TMPDIR shorter", where);
}

/* In a process of its own: no scenario forks with an open session. */
void holdfast_needed(const char *url)
{
    pid_t pid = fork_bound();
    int status;

    if (pid == 0) {
        hf_session *session;
        hf_error err;
        int rc = hf_open(&session, url, NULL, &err);

        if (rc == HF_EDRIVER)
            bench_skip("needs a driver: %s", err.text);
        if (rc != 0)
            bench_die("holdfast: %s", err.text);
        hf_close(session);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

static void *holdfast_open_process(const char *where)
{
    hf_session *s;
    hf_error err;
    char url[512];

    holdfast_url(url, sizeof url, where);
    if (hf_open(&s, url, NULL, &err) != 0)
        bench_die("holdfast: %s", err.text);
    return s;
}

static void *holdfast_open_thread(void *process, int worker)
{
    struct holdfast_thread *t = calloc(1, sizeof *t);

    (void)worker;
    if (t == NULL)
        bench_die("out of memory");
    t->session = process;
    return t;
}

static void holdfast_lock(void *thread, const char *key)
{
    struct holdfast_thread *t = thread;
    hf_error err;

    if (hf_lock(t->session, key, NULL, &t->hold, &err) != 0)
        bench_die("holdfast: '%s': %s", key, err.text);
}

static void holdfast_unlock(void *thread, const char *key)
{
    struct holdfast_thread *t = thread;
    hf_error err;

    if (hf_release(t->hold, &err) != 0)
        bench_die("holdfast: '%s': %s", key, err.text);
}

const struct side side_holdfast = {
    .name = "holdfast",
    .open_process = holdfast_open_process,
    .open_thread = holdfast_open_thread,
    .lock = holdfast_lock,
    .unlock = holdfast_unlock,
};
