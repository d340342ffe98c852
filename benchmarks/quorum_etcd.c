/* quorum_etcd.c - etcd in the benchmark: its server, what it counts, and what
 * we are compared with.
 *
 * Go's clientv3/concurrency is what programs lock with, `etcdctl lock` what
 * scripts do.  The hand-over is measured against what it cannot do without: the
 * commit that takes the key away, and one read by the next one, both by the
 * floor, after the same pause. */
#include "peer.h"
#include "quorum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool etcd_is_ready(struct quorum_server *s)
{
    char said[4096];

    return quorum_ask(s->ask_port, "GET /health HTTP/1.0\r\n\r\n", said,
                      sizeof said) > 0 &&
           strstr(said, "\"true\"") != NULL;
}

/* Messages that came in by gRPC: calls, and what is sent on streams.  A renewal
 * of ours is a keepalive and a read; nothing else that is counted apart from
 * renewals reads that way, since looks are transactions. */
static struct quorum_counts etcd_count(struct quorum_server *s)
{
    static const char name[] = "\ngrpc_server_msg_received_total{";
    static char said[1 << 20];
    struct quorum_counts ret = {0, 0};
    const char *at = said;
    double reads = 0;

    if (quorum_ask(s->ask_port, "GET /metrics HTTP/1.0\r\n\r\n", said,
                   sizeof said) <= 0)
        bench_die("etcd: the server does not say what it received");
    while ((at = strstr(at, name)) != NULL) {
        const char *end = strchr(++at, '\n'), *value = strstr(at, "} ");
        const char *renewal = strstr(at, "\"LeaseKeepAlive\"");
        const char *read = strstr(at, "\"Range\"");
        double n;

        if (end == NULL || value == NULL || value > end)
            bench_die("etcd: its counts are not understood");
        n = strtod(value + 2, NULL);
        ret.all += n;
        if (renewal != NULL && renewal < end)
            ret.renewals += n;
        if (read != NULL && read < end)
            reads += n;
    }
    ret.renewals += reads < ret.renewals ? reads : ret.renewals;
    return ret;
}

static const char *const durable[] = {"--unsafe-no-fsync=false", NULL};

const struct quorum_kind quorum_etcd = {
    .name = "etcd",
    .program = BENCH_HARNESS "/etcd-server",
    .durable = durable,
    .ports = 3,
    .is_ready = etcd_is_ready,
    .count = etcd_count,
    .pair = &floor_etcd,
    .pair_goal = 1.10,
    .requests_goal = 2.05,
    .idle_goal = 1,
    .tells_renewals = true,
};

void bench_etcd_pair(const struct bench *b)
{
    quorum_pair(b, &quorum_etcd);
}

/* ---- Others ---------------------------------------------------------- */

static struct peer *start_mutex(const struct quorum_server *s, int core)
{
    const char *const argv[] = {BENCH_MUTEX, s->at, "bench-mutex", NULL};

    return peer_program(argv, core);
}

static const struct rival rivals[] = {{.name = "Go's concurrency.Mutex",
                                       .start = start_mutex,
                                       .is_slow = true,
                                       .contended_goal = 10}};

static bool has_mutex(void)
{
    return access(BENCH_MUTEX, X_OK) == 0;
}

/* ---- The hand-over --------------------------------------------------- */

#define MAX_STEPS 300

static void measure_steps(const struct bench *b, const struct quorum_server *s,
                          const struct placement *place, double ret_us[2])
{
    static double took[2][MAX_STEPS];
    const int steps = b->quick ? 60 : MAX_STEPS;
    unsigned seed = 1;
    void *thread;

    pin_to(place->client);
    thread = floor_etcd.open_thread(floor_etcd.open_process(s->url), 0);
    for (int i = -10; i < steps; i++) {
        int64_t at[3];

        floor_etcd.lock(thread, "steps");
        sleep_us(4000 + rand_r(&seed) % 1000);
        at[0] = now_ns();
        floor_etcd.unlock(thread, "steps");
        at[1] = now_ns();
        floor_etcd_read(thread, "steps");
        at[2] = now_ns();
        for (int k = 0; k < 2 && i >= 0; k++)
            took[k][i] = (double)(at[k + 1] - at[k]) / 1e3;
    }
    pin_to(ALL_CORES);
    for (int k = 0; k < 2; k++)
        ret_us[k] = median(took[k], (size_t)steps);
}

static void print_steps(const struct bench *b, const struct quorum_server *s,
                        const struct placement *place, double ours_us)
{
    double us[2];
    char text[64];

    measure_steps(b, s, place, us);
    snprintf(text, sizeof text, "release to lock, p50, %s", place->name);
    row_print(b, &(struct row){"etcd-handover", text, "us", ours_us,
                               "a commit and a read", us[0] + us[1],
                               RATIO_AT_MOST, 1.3});
    snprintf(text, sizeof text, "(the floor's commit, its read, %s)",
             place->name);
    row_print(b, &(struct row){"etcd-handover", text, "us", us[0], "read",
                               us[1], NO_GOAL, 0});
}

void bench_etcd_handover(const struct bench *b)
{
    quorum_handover(b, &quorum_etcd, rivals, has_mutex() ? 1 : 0, print_steps);
}

void bench_etcd_contended(const struct bench *b)
{
    if (!has_mutex())
        bench_skip("needs Go and etcd's client in Go (Debian: golang-go, "
                   "golang-etcd-server-dev), and a build after them");
    quorum_contended(b, &quorum_etcd, rivals, 1);
}

void bench_etcd_waiters(const struct bench *b)
{
    quorum_waiters(b, &quorum_etcd);
}

/* ---- The command ----------------------------------------------------- */

#define MAX_RUNS 100

void bench_etcd_command(const struct bench *b)
{
    const int runs = b->quick ? 20 : MAX_RUNS;
    double ours[MAX_RUNS], theirs[MAX_RUNS];
    struct placement place[PLACEMENTS];
    int places = placements(place);
    char endpoint[64], text[64];
    const char *const run[] = {b->command, "run", "bench", "--", "true", NULL};
    const char *const lock[] = {"etcdctl", endpoint, "lock",
                                "bench",   "true",   NULL};
    size_t n = (size_t)runs;

    if (!is_in_path("etcdctl"))
        bench_skip("needs etcdctl (Debian: etcd-client)");
    setenv("ETCDCTL_API", "3", 1);
    for (int i = 0; i < places; i++) {
        struct quorum_server s;

        quorum_start(&s, b, &quorum_etcd, place[i].server);
        pin_to(place[i].client);
        snprintf(endpoint, sizeof endpoint, "--endpoints=%s", s.at);
        setenv("HOLDFAST_URL", s.url, 1);
        for (int k = -3; k < runs; k++) {
            double ms[2] = {run_ms(run), run_ms(lock)};

            if (k >= 0) {
                ours[k] = ms[0];
                theirs[k] = ms[1];
            }
        }
        snprintf(text, sizeof text, "run KEY -- true, p50, %s", place[i].name);
        row_print(b, &(struct row){"etcd-command", text, "ms", median(ours, n),
                                   "etcdctl lock", median(theirs, n),
                                   RATIO_AT_MOST, 1.0 / 3});
        quorum_stop(&s);
    }
}
