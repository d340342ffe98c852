/* sql_server.c - starts a database, waits for it, stops it.
 *
 * The server is the one of the tests (tests/harness/sql-server), with the words
 * that make it flush at every commit: what is measured is a lock that survives
 * a crash of its server.  It writes a log into the scenario's folder and dies
 * with the scenario.  Knows nothing of locks. */
#include "sql.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 20

static void become_server(const struct sql_server *s, const char *folder,
                          int core)
{
    const char *word[MAX_WORDS + 1] = {BENCH_SQL_SERVER, s->kind->server,
                                       folder};
    int log = open(s->log, O_WRONLY | O_CREAT | O_TRUNC, 0644), n = 4;
    char port[16];

    pin_to(core);
    snprintf(port, sizeof port, "%d", s->port);
    word[3] = port;
    for (const char *const *d = s->kind->durable; *d && n < MAX_WORDS; d++)
        word[n++] = *d;
    if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
    execv(word[0], (char *const *)word);
    _exit(127);
}

static bool says(const char *path, const char *text)
{
    static char buf[1 << 16];
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(buf, 1, sizeof buf - 1, f) : 0;

    if (f)
        fclose(f);
    buf[n] = '\0';
    return strstr(buf, text) != NULL;
}

/* A server that is starting and one that is filling its tables both take a
 * while: a minute is a failure, not patience. */
static bool await_ready(struct sql_server *s)
{
    for (int i = 0; i < 6000; i++) {
        if (says(s->log, s->kind->ready))
            return true;
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
            return false;
        sleep_us(10 * 1000);
    }
    end_child(s->pid);
    return false;
}

void sql_start(struct sql_server *ret, const struct bench *b,
               const struct sql_kind *kind, int core)
{
    char folder[400];

    /* The server's account must pass through. */
    if (chmod(b->dir, 0711) != 0)
        bench_die("cannot open '%s': %s", b->dir, strerror(errno));
    for (int tries = 0; tries < 3; tries++) {
        char name[40];

        *ret = (struct sql_server){.kind = kind, .port = free_port()};
        snprintf(name, sizeof name, "%s-%d", kind->name, ret->port);
        path_in(folder, sizeof folder, b->dir, name);
        snprintf(ret->log, sizeof ret->log, "%s.log", folder);
        snprintf(ret->url, sizeof ret->url, "%s://%s@127.0.0.1:%d/holdfast",
                 strcmp(kind->name, "mariadb") == 0 ? "mysql" : kind->name,
                 kind->user, ret->port);
        ret->pid = fork_bound();
        if (ret->pid == 0)
            become_server(ret, folder, core);
        if (await_ready(ret)) {
            kind->prepare(ret);
            return;
        }
    }
    bench_skip("needs a %s server that starts; its log ends '%s'", kind->server,
               ret->log);
}

/* PostgreSQL gives its shared memory back if it may; then for certain. */
void sql_stop(struct sql_server *s)
{
    kill(s->pid, SIGQUIT);
    for (int i = 0; i < 300; i++) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
            return;
        sleep_us(10 * 1000);
    }
    end_child(s->pid);
}

int sql_port_of(const char *url)
{
    const char *colon = strrchr(url, ':');

    return colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}
