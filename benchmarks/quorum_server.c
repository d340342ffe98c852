/* quorum_server.c - starts a server of ZooKeeper or etcd, asks it, stops it.
 *
 * The server is the one of the tests (tests/harness/zookeeper-server,
 * etcd-server), with the words that make it flush at every commit.  It writes a
 * log into the scenario's folder and dies with the scenario.  Knows nothing of
 * locks. */
#include "quorum.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 20

long quorum_ask(int port, const char *text, char *ret, size_t cap)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* A server that starts may take a question and never answer it. */
    const struct timeval patience = {.tv_sec = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t have = 0, len = strlen(text);
    ssize_t n;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
                             sizeof patience) != 0)
        bench_die("no socket: %s", strerror(errno));
    ret[0] = '\0';
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len) {
        close(fd);
        return -1;
    }
    while (have < cap - 1 && (n = recv(fd, ret + have, cap - 1 - have, 0)) > 0)
        have += (size_t)n;
    ret[have] = '\0';
    close(fd);
    return (long)have;
}

static void become_server(const struct quorum_server *s, const char *folder,
                          int core)
{
    const char *word[MAX_WORDS + 1] = {s->kind->program, folder};
    int log = open(s->log, O_WRONLY | O_CREAT | O_TRUNC, 0644), n = 2;
    char port[3][16];

    pin_to(core);
    snprintf(port[0], sizeof port[0], "%d", s->port);
    snprintf(port[1], sizeof port[1], "%d", s->ask_port);
    snprintf(port[2], sizeof port[2], "%d", free_port());
    for (int i = 0; i < s->kind->ports; i++)
        word[n++] = port[i];
    for (const char *const *d = s->kind->durable; *d && n < MAX_WORDS; d++)
        word[n++] = *d;
    if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
    execv(word[0], (char *const *)word);
    _exit(127);
}

/* A minute is a failure, not patience. */
static bool await_ready(struct quorum_server *s)
{
    for (int i = 0; i < 3000; i++) {
        if (s->kind->is_ready(s))
            return true;
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
            return false;
        sleep_us(20 * 1000);
    }
    end_child(s->pid);
    return false;
}

void quorum_start(struct quorum_server *ret, const struct bench *b,
                  const struct quorum_kind *kind, int core)
{
    for (int tries = 0; tries < 3; tries++) {
        char folder[400], name[40];

        *ret = (struct quorum_server){.kind = kind, .port = free_port()};
        ret->ask_port = kind->ports > 1 ? free_port() : ret->port;
        snprintf(name, sizeof name, "%s-%d", kind->name, ret->port);
        path_in(folder, sizeof folder, b->dir, name);
        snprintf(ret->log, sizeof ret->log, "%s.log", folder);
        snprintf(ret->at, sizeof ret->at, "127.0.0.1:%d", ret->port);
        snprintf(ret->url, sizeof ret->url, "%s://%s", kind->name, ret->at);
        ret->pid = fork_bound();
        if (ret->pid == 0)
            become_server(ret, folder, core);
        if (await_ready(ret)) {
            holdfast_needed(ret->url);
            return;
        }
    }
    bench_skip("needs a server of %s that starts (Debian: etcd-server; "
               "libzookeeper-java and a Java)",
               kind->name);
}

void quorum_stop(struct quorum_server *s)
{
    end_child(s->pid);
}
