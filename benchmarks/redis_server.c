/* redis_server.c - starts a Redis server, asks it, stops it.
 *
 * The server keeps nothing on disk and listens on a port that was free a
 * moment ago; that the one who answers there is ours is checked by its process
 * id.  It is a child that dies with the scenario, so nothing is left behind.
 * Knows nothing of locks. */
#include "redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Start and stop -------------------------------------------------- */

/* A number behind "name:" in what INFO says. */
static double info_number(const char *info, const char *name)
{
    const char *at = strstr(info, name);

    if (at == NULL)
        bench_die("redis-server says nothing about '%s'", name);
    return strtod(at + strlen(name), NULL);
}

static redisReply *control(struct redis_server *s, const char *command)
{
    redisReply *r = redisCommand(s->control, command);

    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        bench_die("redis-server: '%s' failed: %s", command,
                  r != NULL ? r->str : "the connection broke");
    return r;
}

/* Does our server answer?  *ret_gone: it has ended. */
static bool is_up(struct redis_server *s, bool *ret_gone)
{
    redisContext *c = redisConnect("127.0.0.1", s->port);
    redisReply *r = NULL;
    bool ours = false;

    *ret_gone = waitpid(s->pid, NULL, WNOHANG) == s->pid;
    if (!*ret_gone && c != NULL && c->err == 0)
        r = redisCommand(c, "INFO server");
    if (r != NULL && r->type == REDIS_REPLY_STRING)
        ours = (pid_t)info_number(r->str, "process_id:") == s->pid;
    if (r != NULL)
        freeReplyObject(r);
    if (ours)
        s->control = c;
    else if (c != NULL)
        redisFree(c);
    return ours;
}

static void become_server(const struct bench *b, int port, int core,
                          const char *const *more)
{
    char number[16];
    const char *words[34] = {
        "redis-server", "--port",    number,         "--bind", "127.0.0.1",
        "--save",       "",          "--appendonly", "no",     "--daemonize",
        "no",           "--logfile", "redis.log",    "--dir",  b->dir};

    for (int i = 0; i < 16 && more[i] != NULL; i++)
        words[15 + i] = more[i];
    pin_to(core);
    snprintf(number, sizeof number, "%d", port);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

void redis_start(struct redis_server *ret, const struct bench *b, int core)
{
    redis_start_with(ret, b, core, (const char *const[]){NULL});
}

void redis_start_with(struct redis_server *ret, const struct bench *b, int core,
                      const char *const *more)
{
    for (int tries = 0; tries < 5; tries++) {
        bool gone = false;

        *ret = (struct redis_server){.port = free_port()};
        ret->pid = fork_bound();
        if (ret->pid == 0)
            become_server(b, ret->port, core, more);
        for (int i = 0; i < 500 && !gone; i++) {
            if (is_up(ret, &gone)) {
                snprintf(ret->url, sizeof ret->url, "redis://127.0.0.1:%d",
                         ret->port);
                return;
            }
            sleep_us(10 * 1000);
        }
        /* Another took the port between our look and its start. */
        if (!gone)
            end_child(ret->pid);
    }
    bench_die("redis-server does not start");
}

void redis_stop(struct redis_server *s)
{
    redisFree(s->control);
    end_child(s->pid);
}

void redis_needed(const struct bench *b)
{
    struct redis_server s;
    int status;
    pid_t pid;

    if (!is_in_path("redis-server"))
        bench_skip("needs redis-server (Debian: redis-server)");
    redis_start(&s, b, core_count() - 1);
    /* In a process of its own: no scenario forks with an open session. */
    pid = fork_bound();
    if (pid == 0) {
        hf_session *session;
        hf_error err;
        int rc = hf_open(&session, s.url, NULL, &err);

        if (rc == HF_EDRIVER)
            bench_skip("needs the Redis driver: %s", err.text);
        if (rc != 0)
            bench_die("holdfast: %s", err.text);
        hf_close(session);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    redis_stop(&s);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

/* ---- What it has counted --------------------------------------------- */

struct redis_counts redis_count(struct redis_server *s)
{
    redisReply *r = control(s, "INFO stats cpu");
    struct redis_counts c = {
        .executed = info_number(r->str, "total_commands_processed:"),
        .reads = info_number(r->str, "total_reads_processed:"),
        .cpu_s = info_number(r->str, "used_cpu_sys:") +
                 info_number(r->str, "used_cpu_user:")};

    freeReplyObject(r);
    return c;
}

/* INFO has been counted as read, but not yet as executed, when it answers; so
 * between two questions lies one of both. */
struct redis_counts redis_count_since(struct redis_server *s,
                                      struct redis_counts then)
{
    struct redis_counts now = redis_count(s);

    return (struct redis_counts){.executed = now.executed - then.executed - 1,
                                 .reads = now.reads - then.reads - 1,
                                 .cpu_s = now.cpu_s - then.cpu_s};
}

long redis_connections(struct redis_server *s)
{
    long found = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;

        found += getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
                 peer.sin_family == AF_INET && ntohs(peer.sin_port) == s->port;
    }
    return found - 1;
}

/* ---- What it reads --------------------------------------------------- */

struct redis_monitor {
    struct redis_server *server;
    redisContext *conn;
    pthread_t thread;
    _Atomic long count, marks;
    long asked; /* marks sent */
};

/* A line is `TIME [DB WHO] "COMMAND" ...`; WHO is `lua` inside a script.  Our
 * marks are told from the commands of others by their text. */
static void *read_monitor(void *arg)
{
    struct redis_monitor *m = arg;
    void *reply;

    while (redisGetReply(m->conn, &reply) == REDIS_OK && reply != NULL) {
        redisReply *r = reply;
        const char *line = r->type == REDIS_REPLY_STATUS ? r->str : "";

        if (strstr(line, "\"holdfast-bench-mark\"") != NULL)
            atomic_fetch_add(&m->marks, 1);
        else if (strchr(line, '[') != NULL && strstr(line, " lua] ") == NULL)
            atomic_fetch_add(&m->count, 1);
        freeReplyObject(r);
    }
    return NULL;
}

struct redis_monitor *redis_watch(struct redis_server *s)
{
    struct redis_monitor *m = calloc(1, sizeof *m);
    redisReply *r;

    if (m == NULL)
        bench_die("out of memory");
    m->server = s;
    m->conn = redisConnect("127.0.0.1", s->port);
    if (m->conn == NULL || m->conn->err != 0)
        bench_die("cannot connect to redis-server");
    r = redisCommand(m->conn, "MONITOR");
    if (r == NULL || r->type != REDIS_REPLY_STATUS)
        bench_die("redis-server: MONITOR failed");
    freeReplyObject(r);
    if (pthread_create(&m->thread, NULL, read_monitor, m) != 0)
        bench_die("cannot start a thread");
    return m;
}

long redis_read_so_far(struct redis_monitor *m)
{
    m->asked++;
    freeReplyObject(control(m->server, "ECHO holdfast-bench-mark"));
    for (int i = 0; i < 10000 && atomic_load(&m->marks) < m->asked; i++)
        sleep_us(1000);
    if (atomic_load(&m->marks) < m->asked)
        bench_die("MONITOR of redis-server does not answer");
    return atomic_load(&m->count);
}

void redis_unwatch(struct redis_monitor *m)
{
    shutdown(m->conn->fd, SHUT_RDWR);
    pthread_join(m->thread, NULL);
    redisFree(m->conn);
    free(m);
}
