/* ensemble.c - a throwaway ZooKeeper or etcd of a test's own.
 *
 * Ports are found by binding port 0 and letting it go; somebody else may take
 * one before the server does, so an ensemble of which a member ends at once is
 * started again on other ports, a few times.
 *
 * With links the members do not know each other's ports.  ZooKeeper: a follower
 * dials its leader, so each has a link of its own to every other, and its
 * configuration names them.  etcd: all dial all, over one link in front of
 * each; who dials is told by a header that members send. */
#include "harness/ensemble.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

enum { START_MS = 60000, ASK_MS = 2000, WORDS_MAX = 40, TEXT_MAX = 8192 };

/* ---- Questions ---------------------------------------------------------- */

static __thread char answer[1 << 16];

/* What is answered until the end; "" if nobody does. */
static const char *ask_port(int port, const char *question)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {ASK_MS / 1000, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t used = 0;
    ssize_t n;

    EXPECT(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, question, strlen(question), MSG_NOSIGNAL) > 0) {
        while (used < sizeof answer - 1 &&
               (n = recv(fd, answer + used, sizeof answer - 1 - used, 0)) > 0)
            used += (size_t)n;
    }
    answer[used] = '\0';
    close(fd);
    return answer;
}

static const char *ask_member(const ensemble *e, int i, const char *what)
{
    char text[200];

    if (!e->members[i].pid || e->members[i].paused)
        return "";
    if (e->kind == ON_ZOOKEEPER)
        return ask_port(e->members[i].port, what);
    snprintf(text, sizeof text, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n",
             what);
    return ask_port(e->members[i].ask_port, text);
}

bool ensemble_serves(ensemble *e, int i)
{
    if (e->kind == ON_ZOOKEEPER)
        return strstr(ask_member(e, i, "srvr"), "\nMode: ") != NULL;
    return strstr(ask_member(e, i, "/health"), "\"true\"") != NULL;
}

int ensemble_leader(ensemble *e)
{
    for (int i = 0; i < e->count; i++) {
        const char *said =
            ask_member(e, i, e->kind == ON_ZOOKEEPER ? "srvr" : "/metrics");

        if (strstr(said, "\nMode: leader") ||
            strstr(said, "\nMode: standalone") ||
            strstr(said, "\netcd_server_is_leader 1"))
            return i;
    }
    return -1;
}

int ensemble_await_leader(ensemble *e)
{
    int leader = -1;

    if (!WAIT_FOR((leader = ensemble_leader(e)) >= 0, START_MS))
        FAIL_TEST("nobody leads");
    return leader;
}

int ensemble_follower(ensemble *e)
{
    int leader = ensemble_await_leader(e);

    return (leader + 1) % e->count;
}

void ensemble_await(ensemble *e)
{
    for (int i = 0; i < e->count; i++) {
        if (e->members[i].pid && !e->members[i].paused &&
            !WAIT_FOR(ensemble_serves(e, i), START_MS)) {
            child_show(e->members[i].log);
            FAIL_TEST("member %d does not serve", i);
        }
    }
}

/* ---- Words for a member ------------------------------------------------- */

typedef struct word_list {
    char *words[WORDS_MAX];
    int count;
    char text[TEXT_MAX];
    size_t used;
} word_list;

static void add_word(word_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_word(word_list *list, const char *format, ...)
{
    va_list args;
    size_t room = sizeof list->text - list->used;
    int len;

    va_start(args, format);
    len = vsnprintf(list->text + list->used, room, format, args);
    va_end(args);
    EXPECT(len >= 0 && (size_t)len < room && list->count < WORDS_MAX - 1);
    list->words[list->count++] = list->text + list->used;
    list->used += (size_t)len + 1;
}

static void add_certificates(word_list *list, const ensemble *e)
{
    add_word(list, "HF_TEST_CERTS=%s", test_certificates());
    add_word(list, "HF_TEST_CERT=%s",
             e->options.expired ? "expired" : "server");
}

static void make_zookeeper(word_list *list, const ensemble *e, int i)
{
    const ensemble_member *m = &e->members[i];

    if (e->count > 1)
        add_word(list, "HF_ZK_ID=%d", i + 1);
    if (e->options.tls) {
        add_word(list, "HF_ZK_TLS_PORT=%d", m->tls_port);
        add_certificates(list, e);
    }
    add_word(list, "%s/zookeeper-server", HF_HARNESS_DIR);
    add_word(list, "%s", m->folder);
    add_word(list, "%d", m->port);
    for (int j = 0; e->count > 1 && j < e->count; j++) {
        const ensemble_member *other = &e->members[j];

        add_word(list, "server.%d=127.0.0.1:%d:%d", j + 1,
                 m->to[j] >= 0 ? links_port(e->between, m->to[j])
                               : other->peer_port,
                 other->vote_port);
    }
}

static void make_etcd(word_list *list, const ensemble *e, int i)
{
    const ensemble_member *m = &e->members[i];
    char members[300] = "";
    size_t used = 0;

    add_word(list, "HF_ETCD_NAME=m%d", i + 1);
    for (int j = 0; j < e->count; j++) {
        const ensemble_member *other = &e->members[j];

        used += (size_t)snprintf(
            members + used, sizeof members - used, "%sm%d=http://127.0.0.1:%d",
            j ? "," : "", j + 1,
            other->to[j] >= 0 ? links_port(e->between, other->to[j])
                              : other->peer_port);
    }
    add_word(list, "HF_ETCD_MEMBERS=%s", members);
    if (e->options.tls) {
        add_word(list, "HF_ETCD_TLS=yes");
        add_certificates(list, e);
    }
    add_word(list, "%s/etcd-server", HF_HARNESS_DIR);
    add_word(list, "%s", m->folder);
    add_word(list, "%d", m->port);
    add_word(list, "%d", m->ask_port);
    add_word(list, "%d", m->peer_port);
}

/* ---- Starting and ending ------------------------------------------------ */

static void start_member(ensemble *e, int i)
{
    word_list *list = calloc(1, sizeof *list);

    EXPECT(list != NULL);
    add_word(list, "env");
    if (e->kind == ON_ZOOKEEPER)
        make_zookeeper(list, e, i);
    else
        make_etcd(list, e, i);
    for (size_t k = 0; k < sizeof e->options.more / sizeof *e->options.more;
         k++) {
        if (!e->options.more[k])
            break;
        add_word(list, "%s", e->options.more[k]);
    }
    e->members[i].paused = false;
    e->members[i].pid = child_start(list->words, e->members[i].log);
    free(list);
}

void ensemble_kill(ensemble *e, int i)
{
    if (e->members[i].pid)
        child_end(e->members[i].pid, SIGKILL);
    e->members[i].pid = 0;
    e->members[i].paused = false;
}

static bool all_serve(ensemble *e)
{
    for (int i = 0; i < e->count; i++) {
        if (!ensemble_serves(e, i))
            return false;
    }
    return true;
}

static bool has_ended(ensemble *e)
{
    for (int i = 0; i < e->count; i++) {
        if (child_ended(e->members[i].pid) >= 0) {
            e->members[i].pid = 0;
            return true;
        }
    }
    return false;
}

static void choose_ports(ensemble *e, int attempt)
{
    static int serial;

    for (int i = 0; i < e->count; i++) {
        ensemble_member *m = &e->members[i];

        *m = (ensemble_member){.front = -1, .to = {-1, -1, -1}};
        m->port = child_port();
        m->tls_port = e->options.tls ? child_port() : 0;
        m->ask_port = child_port();
        m->peer_port = child_port();
        m->vote_port = child_port();
        snprintf(m->folder, sizeof m->folder, "%s/member-%d-%d-%d",
                 test_folder(), serial, attempt, i);
        snprintf(m->log, sizeof m->log, "%s/member-%d-%d-%d.log", test_folder(),
                 serial, attempt, i);
    }
    serial++;
}

static void make_links(ensemble *e)
{
    e->between = links_start(e->kind == ON_ETCD ? "X-Server-From: " : NULL);
    for (int i = 0; i < e->count; i++) {
        ensemble_member *m = &e->members[i];

        m->front = links_add(e->between, e->kind == ON_ZOOKEEPER && m->tls_port
                                             ? m->tls_port
                                             : m->port);
        /* ZooKeeper: to every other; etcd: in front of itself. */
        for (int j = 0; j < e->count; j++) {
            if ((e->kind == ON_ZOOKEEPER) == (i != j) && e->count > 1)
                m->to[j] = links_add(e->between, e->members[j].peer_port);
        }
    }
}

static bool try_start(ensemble *e, int attempt)
{
    long long end = test_now_ms() + START_MS;
    bool good = false;

    choose_ports(e, attempt);
    if (e->options.links)
        make_links(e);
    for (int i = 0; i < e->count; i++)
        start_member(e, i);
    while (!has_ended(e) && test_now_ms() < end && !good) {
        good = all_serve(e);
        test_sleep_ms(20);
    }
    for (int i = 0; !good && i < e->count; i++)
        ensemble_kill(e, i);
    if (!good) {
        links_stop(e->between);
        e->between = NULL;
    }
    return good;
}

/* ---- etcd's users and names --------------------------------------------- */

static void run_etcdctl(ensemble *e, const char *text)
{
    char log[300], endpoint[80], copy[200];
    char *words[12] = {(char[]){"env"}, (char[]){"ETCDCTL_API=3"},
                       (char[]){"etcdctl"}, endpoint};
    char *rest = copy, *word;
    int n = 4;

    snprintf(endpoint, sizeof endpoint, "--endpoints=127.0.0.1:%d",
             e->members[0].port);
    snprintf(copy, sizeof copy, "%s", text);
    while ((word = strsep(&rest, " ")) != NULL && n < 11)
        words[n++] = word;
    snprintf(log, sizeof log, "%s.ctl", e->members[0].log);
    if (child_run(words, log, START_MS) != 0) {
        child_show(log);
        FAIL_TEST("etcdctl %s failed", text);
    }
}

static void make_users(ensemble *e)
{
    run_etcdctl(e, "user add root:s3cret");
    run_etcdctl(e, "user grant-role root root");
    run_etcdctl(e, "user add keeper:s3cret");
    run_etcdctl(e, "role add keepers");
    /* The blank at the end makes an empty word: the prefix of every key. */
    run_etcdctl(e, "role grant-permission keepers readwrite --prefix=true ");
    run_etcdctl(e, "user grant-role keeper keepers");
    run_etcdctl(e, "auth enable");
}

static void learn_ids(ensemble *e)
{
    static const char before[] = "etcd_server_id{server_id=\"";

    for (int i = 0; i < e->count; i++) {
        const char *at = strstr(ask_member(e, i, "/metrics"), before);

        EXPECT(at != NULL);
        at += sizeof before - 1;
        snprintf(e->members[i].id, sizeof e->members[i].id, "%.*s",
                 (int)strcspn(at, "\""), at);
    }
}

ensemble *ensemble_start(ensemble_kind kind, const ensemble_options *opt)
{
    ensemble *e = calloc(1, sizeof *e);
    bool good = false;

    EXPECT(e != NULL);
    e->kind = kind;
    if (opt)
        e->options = *opt;
    e->count = e->options.members ? e->options.members : 1;
    EXPECT(e->count <= ENSEMBLE_MOST);
    for (int attempt = 0; attempt < 3 && !good; attempt++)
        good = try_start(e, attempt);
    if (!good) {
        for (int i = 0; i < e->count; i++)
            child_show(e->members[i].log);
        FAIL_TEST("the servers did not come up; are they installed?");
    }
    if (kind == ON_ETCD) {
        learn_ids(e);
        if (e->options.auth)
            make_users(e);
    }
    return e;
}

void ensemble_stop(ensemble *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->count; i++)
        ensemble_kill(e, i);
    links_stop(e->between);
    free(e);
}

void ensemble_restart(ensemble *e, int i)
{
    EXPECT_EQ(e->members[i].pid, 0);
    start_member(e, i);
}

void ensemble_pause(ensemble *e, int i)
{
    int status = 0;

    EXPECT(kill(e->members[i].pid, SIGSTOP) == 0);
    /* One thread takes the signal and stops the others; the kernel tells the
     * parent when all of them stand. */
    EXPECT(waitpid(e->members[i].pid, &status, WUNTRACED) == e->members[i].pid);
    EXPECT(WIFSTOPPED(status));
    e->members[i].paused = true;
}

void ensemble_continue(ensemble *e, int i)
{
    EXPECT(kill(e->members[i].pid, SIGCONT) == 0);
    e->members[i].paused = false;
}

/* ---- Cutting ------------------------------------------------------------ */

void ensemble_isolate(ensemble *e, int i, bool on)
{
    EXPECT(e->between != NULL);
    if (e->kind == ON_ETCD) {
        links_hold(e->between, e->members[i].to[i], on);
        links_hold_named(e->between, e->members[i].id, on);
        return;
    }
    for (int j = 0; j < e->count; j++) {
        if (j != i) {
            links_hold(e->between, e->members[i].to[j], on);
            links_hold(e->between, e->members[j].to[i], on);
        }
    }
}

void ensemble_hold_clients(ensemble *e, int i, bool on)
{
    EXPECT(e->between != NULL);
    links_hold(e->between, e->members[i].front, on);
}

void ensemble_cut_clients(ensemble *e, int i)
{
    EXPECT(e->between != NULL);
    links_cut(e->between, e->members[i].front);
}

/* ---- URLs --------------------------------------------------------------- */

static size_t add_host(ensemble *e, int i, bool direct, char *to, size_t room)
{
    const ensemble_member *m = &e->members[i];
    int port = m->port;

    if (m->front >= 0 && !direct)
        port = links_port(e->between, m->front);
    else if (e->kind == ON_ZOOKEEPER && m->tls_port)
        port = m->tls_port;
    return (size_t)snprintf(to, room, "%s:%d",
                            e->options.tls ? "localhost" : "127.0.0.1", port);
}

static const char *make_url(ensemble *e, int from, int to, bool direct,
                            const char *path)
{
    static char urls[32][900];
    static unsigned next;
    char *url = urls[next++ % 32];
    size_t room = sizeof urls[0], used;

    used = (size_t)snprintf(
        url, room, "%s%s://%s", e->kind == ON_ZOOKEEPER ? "zookeeper" : "etcd",
        e->options.tls ? "s" : "", e->options.auth ? "keeper:s3cret@" : "");
    for (int i = from; i < to; i++) {
        if (i > from)
            url[used++] = ',';
        used += add_host(e, i, direct, url + used, room - used);
    }
    used += (size_t)snprintf(url + used, room - used, "%s", path);
    EXPECT(used < room);
    return url;
}

const char *ensemble_url(ensemble *e, const char *path)
{
    return make_url(e, 0, e->count, false, path);
}

const char *ensemble_direct_url(ensemble *e, const char *path)
{
    return make_url(e, 0, e->count, true, path);
}

const char *ensemble_member_url(ensemble *e, int i, const char *path)
{
    return make_url(e, i, i + 1, false, path);
}
