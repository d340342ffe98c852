/* sentinels.c - a primary, two replicas and three sentinels as children.
 *
 * What sentinels usually find out by themselves in some seconds (each other,
 * the replicas) is written into their files beforehand.  They are asked over
 * TCP, in words of one line, since a sentinel has no Unix socket here; one
 * that was started on a port that somebody took meanwhile ends, and then all of
 * it fails with its log: ports are chosen together, so that is rare. */
#include "harness/sentinels.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"

enum {
    PATIENT_MS = 600000,
    IMPATIENT_MS = 700,
    AGAIN_MS = 1500,
    STAND_MS = 60000
};

/* ---- Asking ---- */

const char *sentinels_ask(int port, const char *password, const char *line)
{
    static __thread char answer[16384];
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {2, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[400];
    int len =
        snprintf(text, sizeof text, "%s%s%s%s\r\n", password ? "AUTH " : "",
                 password ? password : "", password ? "\r\n" : "", line);
    size_t used = 0;

    EXPECT(fd >= 0 && len > 0 && (size_t)len < sizeof text);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    answer[0] = '\0';
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, text, (size_t)len, MSG_NOSIGNAL) == len &&
        shutdown(fd, SHUT_WR) == 0) { /* when it has answered it hangs up */
        ssize_t n;

        while (used + 1 < sizeof answer &&
               (n = recv(fd, answer + used, sizeof answer - 1 - used, 0)) > 0)
            used += (size_t)n;
    }
    answer[used] = '\0';
    close(fd);
    return answer;
}

static void tell(sentinels *all, int number, const char *line)
{
    EXPECT(WAIT_FOR(
        strstr(sentinels_ask(all->ports[number], all->options.password, line),
               "+OK"),
        STAND_MS));
}

static void tell_all(sentinels *all, const char *line)
{
    for (int i = 0; i < SENTINELS_WATCHERS; i++)
        tell(all, i, line);
}

/* An attempt that found no replica fit is repeated after twice the second one;
 * a replica that follows somebody else is left alone so long. */
static void set_patience(sentinels *all, int down_ms, int failover_ms)
{
    char line[160];

    snprintf(line, sizeof line,
             "SENTINEL SET primary down-after-milliseconds %d "
             "failover-timeout %d",
             down_ms, failover_ms);
    tell_all(all, line);
}

void sentinels_impatient(sentinels *all)
{
    set_patience(all, IMPATIENT_MS, AGAIN_MS);
}

void sentinels_patient(sentinels *all)
{
    set_patience(all, PATIENT_MS, PATIENT_MS);
}

void sentinels_appoint(sentinels *all, int number)
{
    char line[160];

    snprintf(line, sizeof line, "SENTINEL MONITOR primary 127.0.0.1 %d 2",
             all->servers[number]->port);
    for (int i = 0; i < SENTINELS_WATCHERS; i++) {
        tell(all, i, "SENTINEL REMOVE primary");
        tell(all, i, line);
    }
    sentinels_patient(all);
}

/* ---- Starting ---- */

static void write_file(const sentinels *all, int number, const char *path)
{
    FILE *f = fopen(path, "w");

    EXPECT(f != NULL);
    fprintf(f,
            "port %d\nbind 127.0.0.1\nsentinel myid %040x\n"
            "sentinel monitor primary 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds primary %d\n"
            "sentinel failover-timeout primary %d\n"
            "sentinel parallel-syncs primary 2\n",
            all->ports[number], 0x5e17 + number, all->servers[0]->port,
            PATIENT_MS, PATIENT_MS);
    if (all->options.password)
        fprintf(f, "requirepass %s\nsentinel sentinel-pass %s\n",
                all->options.password, all->options.password);
    for (int i = 1; i < SENTINELS_SERVERS; i++)
        fprintf(f, "sentinel known-replica primary 127.0.0.1 %d\n",
                all->servers[i]->port);
    for (int i = 0; i < SENTINELS_WATCHERS; i++) {
        if (i != number)
            fprintf(f, "sentinel known-sentinel primary 127.0.0.1 %d %040x\n",
                    all->ports[i], 0x5e17 + i);
    }
    EXPECT(fclose(f) == 0);
}

static void start_watcher(sentinels *all, int number)
{
    char folder[300], path[320], log[320];
    char *words[] = {(char[]){"redis-server"}, path,   (char[]){"--sentinel"},
                     (char[]){"--dir"},        folder, NULL};

    snprintf(folder, sizeof folder, "%s/sentinel-%d", test_folder(), number);
    snprintf(path, sizeof path, "%s/conf", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    EXPECT(mkdir(folder, 0700) == 0);
    write_file(all, number, path);
    all->watchers[number] = child_start(words, log);
}

/* How many are online, and have all that it has. */
static int in_step(sentinels *all)
{
    const char *at = server_ask(all->servers[0], "INFO replication");
    const char *offset = at ? strstr(at, "master_repl_offset:") : NULL;
    char want[48];
    int count = 0;

    if (!offset)
        return 0;
    snprintf(want, sizeof want, ",offset=%lld,",
             strtoll(strchr(offset, ':') + 1, NULL, 10));
    while ((at = strstr(at, want)) != NULL) {
        count++;
        at++;
    }
    return count;
}

void sentinels_await_step(sentinels *all)
{
    EXPECT(WAIT_FOR(in_step(all) == SENTINELS_SERVERS - 1, STAND_MS));
}

static int online_replicas(sentinels *all)
{
    const char *at = server_ask(all->servers[0], "INFO replication");
    int count = 0;

    while (at && (at = strstr(at, "state=online")) != NULL) {
        count++;
        at++;
    }
    return count;
}

sentinels *sentinels_start(const sentinels_options *opt)
{
    sentinels *all = calloc(1, sizeof *all);
    server_options so = {.more = {"--repl-diskless-sync", "yes",
                                  "--repl-diskless-sync-delay", "0"}};
    int used = 4;

    EXPECT(all != NULL);
    if (opt)
        all->options = *opt;
    if (all->options.guarded) {
        so.more[used++] = "--min-replicas-to-write";
        so.more[used++] = "1";
        so.more[used++] = "--min-replicas-max-lag";
        so.more[used++] = "2";
    }
    all->servers[0] = server_start(&so);
    snprintf(all->primary_port, sizeof all->primary_port, "%d",
             all->servers[0]->port);
    so.more[used++] = "--replicaof";
    so.more[used++] = "127.0.0.1";
    so.more[used++] = all->primary_port;
    for (int i = 1; i < SENTINELS_SERVERS; i++)
        all->servers[i] = server_start(&so);
    EXPECT(WAIT_FOR(online_replicas(all) == SENTINELS_SERVERS - 1, STAND_MS));
    for (int i = 0; i < SENTINELS_WATCHERS; i++)
        all->ports[i] = child_port();
    for (int i = 0; i < SENTINELS_WATCHERS; i++)
        start_watcher(all, i);
    EXPECT(WAIT_FOR(sentinels_primary(all) == 0, STAND_MS));
    return all;
}

void sentinels_stop(sentinels *all)
{
    for (int i = 0; i < SENTINELS_WATCHERS; i++)
        child_end(all->watchers[i], SIGKILL);
    for (int i = 0; i < SENTINELS_SERVERS; i++)
        server_stop(all->servers[i]);
    free(all);
}

const char *sentinels_url(sentinels *all, const char *query)
{
    char *url = all->urls[all->next++ % 8];

    snprintf(url, sizeof all->urls[0],
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/primary"
             "?%s",
             all->ports[0], all->ports[1], all->ports[2], query);
    return url;
}

/* ---- Who it is ---- */

int sentinels_primary(sentinels *all)
{
    int named = -1;

    for (int i = 0; i < SENTINELS_WATCHERS; i++) {
        const char *said =
            sentinels_ask(all->ports[i], all->options.password,
                          "SENTINEL get-master-addr-by-name primary");
        int who = 0;

        for (; who < SENTINELS_SERVERS; who++) {
            char port[24];

            snprintf(port, sizeof port, "\r\n%d\r\n", all->servers[who]->port);
            if (strstr(said, port))
                break;
        }
        if (who == SENTINELS_SERVERS || (i > 0 && who != named))
            return -1;
        named = who;
    }
    return named;
}

static int other_than(sentinels *all, int than)
{
    int who = sentinels_primary(all);

    if (who < 0 || who == than || all->servers[who]->pid == 0)
        return -1;
    return strcmp(server_info(all->servers[who], "role"), "master") == 0 ? who
                                                                         : -1;
}

int sentinels_await_other(sentinels *all, int than)
{
    int who = -1;

    if (!WAIT_FOR((who = other_than(all, than)) >= 0, 120000))
        FAIL_TEST("the sentinels did not replace server %d", than);
    return who;
}

void sentinels_cut_replicas(sentinels *all)
{
    int now = sentinels_primary(all);

    for (int i = 0; i < SENTINELS_SERVERS; i++) {
        if (i != now)
            EXPECT_STR(server_ask(all->servers[i], "REPLICAOF 127.0.0.1 1"),
                       "OK");
    }
}
