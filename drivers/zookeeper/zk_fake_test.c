/* zk_fake_test.c - time and ownership, with a server that is told when to
 * answer.
 *
 * What a real server shows only now and then: a slow answer (from when is the
 * session counted?), a session that its user has given up (do pings keep it
 * alive?), a node with our id that is another session's (is it adopted?).  The
 * server is a thread that reads frames and answers what it is asked. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "record_text.h"
#include "wire_world.h"

enum { TIMEOUT_MS = 60000, GIVEN = 0x1000, TICK_MS = 200 };

typedef struct fake {
    int listener, port;
    pthread_t thread;
    atomic_int hello_ms, slow_ms; /* before it answers, once */
    atomic_llong hello_at;        /* when it had read the handshake */
    atomic_int connections, open, pings, creates, syncs;
    atomic_bool rude; /* hangs up instead of answering a goodbye */
    atomic_int hasty; /* syncs that did not wait for the one before */
    char entry[200];  /* the first that was created; written by its thread */
    char deleted[200];
} fake;

/* ---- The server ---------------------------------------------------------- */

static bool read_all(int fd, unsigned char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t got = read(fd, bytes, n);

        if (got <= 0)
            return false;
        bytes += got;
        n -= (size_t)got;
    }
    return true;
}

static uint32_t number_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
           (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool read_frame(int fd, record *in)
{
    unsigned char length[4];

    if (!read_all(fd, length, 4))
        return false;
    in->len = number_at(length);
    EXPECT(in->len <= sizeof in->bytes);
    return read_all(fd, in->bytes, in->len);
}

static void send_frame(int fd, const record *body)
{
    record out = {0};

    put(&out, body->len, 4);
    memcpy(out.bytes + out.len, body->bytes, body->len);
    EXPECT(send(fd, out.bytes, out.len + body->len, MSG_NOSIGNAL) != 0);
}

static bool say_hello(fake *f, int fd)
{
    record in, out = {0};

    if (!read_frame(fd, &in))
        return false;
    atomic_store(&f->hello_at, hfd_now());
    test_sleep_ms(atomic_exchange(&f->hello_ms, 0));
    put(&out, 0, 4);
    put(&out, TIMEOUT_MS, 4);
    put(&out, GIVEN, 8);
    put_text(&out, "sixteen bytes ok");
    put(&out, 0, 1);
    send_frame(fd, &out);
    return true;
}

/* The entry with this number, as the server would name it. */
static const char *numbered(const fake *f, int number, char *room, size_t size)
{
    snprintf(room, size, "%s%010d", f->entry, number);
    return room;
}

/* What it has created: 7 is another's, 8 is ours. */
static void put_children(const fake *f, record *out)
{
    char name[220];

    numbered(f, atomic_load(&f->creates) > 1 ? 8 : 7, name, sizeof name);
    put(out, 1, 4);
    put_text(out, strrchr(name, '/') + 1);
    put_stat(out);
}

/* Has another sync come before this one is answered? */
static bool another_came(int fd)
{
    unsigned char next[12];

    return recv(fd, next, sizeof next, MSG_PEEK | MSG_DONTWAIT) ==
               (ssize_t)sizeof next &&
           number_at(next + 8) == ZK_SYNC;
}

/* False: the connection ends without an answer. */
static bool answer(fake *f, int fd, const record *in)
{
    uint32_t op = number_at(in->bytes + 4);
    const char *path = (const char *)in->bytes + 12;
    size_t len = in->len > 12 ? number_at(in->bytes + 8) : 0;
    record out = {0};
    char name[220];

    put_header(&out, (int32_t)number_at(in->bytes), 100, 0);
    switch (op) {
    case ZK_SYNC:
        test_sleep_ms(atomic_exchange(&f->slow_ms, 0));
        atomic_fetch_add(&f->syncs, 1);
        atomic_fetch_add(&f->hasty, another_came(fd));
        put_text(&out, "/");
        break;
    case ZK_CREATE:
        snprintf(f->entry, sizeof f->entry, "%.*s", (int)len, path);
        if (atomic_fetch_add(&f->creates, 1) == 0)
            return false;
        put_text(&out, numbered(f, 8, name, sizeof name));
        put_stat(&out);
        break;
    case ZK_GET_CHILDREN:
        put_children(f, &out);
        break;
    case ZK_GET_DATA: /* its stat names an owner that is not GIVEN */
        put_text(&out, "");
        put_stat(&out);
        break;
    case ZK_DELETE:
        snprintf(f->deleted, sizeof f->deleted, "%.*s", (int)len, path);
        break;
    case ZK_CLOSE:
        if (atomic_load(&f->rude))
            return false;
        break;
    default:
        break;
    }
    send_frame(fd, &out);
    return true;
}

static void serve(fake *f, int fd)
{
    record in;

    if (!say_hello(f, fd))
        return;
    while (read_frame(fd, &in)) {
        if ((int32_t)number_at(in.bytes) == ZK_XID_PING)
            atomic_fetch_add(&f->pings, 1); /* and says nothing to it */
        else if (!answer(f, fd, &in))
            return;
    }
}

static void *run_fake(void *arg)
{
    fake *f = arg;
    int fd;

    while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        atomic_fetch_add(&f->connections, 1);
        atomic_fetch_add(&f->open, 1);
        serve(f, fd);
        close(fd);
        atomic_fetch_sub(&f->open, 1);
    }
    return NULL;
}

static void start_fake(fake *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    memset(f, 0, sizeof *f);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(f->listener, (struct sockaddr *)&at, sizeof at) == 0);
    EXPECT(listen(f->listener, 8) == 0);
    EXPECT(getsockname(f->listener, (struct sockaddr *)&at, &len) == 0);
    f->port = ntohs(at.sin_port);
    EXPECT_EQ(pthread_create(&f->thread, NULL, run_fake, f), 0);
}

/* When the client has closed. */
static void stop_fake(fake *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
}

static void open_fake(world *w, fake *f)
{
    hf__address address = {"127.0.0.1", 0, NULL};
    zk_settings settings = {.addresses = &address,
                            .address_count = 1,
                            .dial_time = HF_MS(LONG_MS),
                            .tick = HF_MS(TICK_MS)};
    hf_error err = {0};

    start_fake(f);
    address.port = (uint16_t)f->port;
    memset(w, 0, sizeof *w);
    EXPECT_OK(open_wire(w, &settings, &err), err);
    start_keeper(w);
}

static void sync_once(world *w, ask *a)
{
    *a = make_ask(w, GIVEN, true, LONG_MS);
    add(a, ZK_SYNC, "/");
    EXPECT_EQ(drive(a), HF_APPLIED);
}

/* ---- From when a session is counted -------------------------------------- */

/* From sendings: of the handshake, however late its answer is; then of what was
 * answered a tick before, however late that answer was. */
static void counted_from_sendings(void)
{
    ask first, slow, after;
    hf_nsec answered;
    world w;
    fake f;

    open_fake(&w, &f);
    atomic_store(&f.hello_ms, 300);
    EXPECT_EQ(begin(&w, TIMEOUT_MS), GIVEN);
    sync_once(&w, &first);
    EXPECT(first.call.touched > 0);
    EXPECT(first.call.touched <= atomic_load(&f.hello_at));
    atomic_store(&f.slow_ms, 400);
    sync_once(&w, &slow);
    answered = hfd_now();
    EXPECT(answered - slow.call.sent >= HF_MS(400));
    while (hfd_now() < answered + HF_MS(TICK_MS) + HF_MS(20))
        test_sleep_ms(5);
    sync_once(&w, &after);
    EXPECT_EQ(after.call.touched, slow.call.sent);
    close_world(&w);
    stop_fake(&f);
}

/* What was answered less than a tick ago may not have been reported: it does
 * not count. */
static void not_from_what_is_fresh(void)
{
    ask first, second;
    world w;
    fake f;

    open_fake(&w, &f);
    begin(&w, TIMEOUT_MS);
    sync_once(&w, &first);
    sync_once(&w, &second);
    /* Unless this machine took a tick's time between the two. */
    if (second.call.sent < first.call.sent + HF_MS(TICK_MS))
        EXPECT(second.call.touched < first.call.sent);
    close_world(&w);
    stop_fake(&f);
}

static hf_session *open_session(const fake *f)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = TIMEOUT_MS};
    hf_session *s = NULL;
    char url[100];
    hf_error err;

    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/r?tick_ms=100",
             f->port);
    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    return s;
}

/* One sync is no proof (models/tick.pml): a renewal sends a second one when the
 * first is answered, never both at once. */
static void a_renewal_is_proved(void)
{
    hf_session *s;
    hf_hold *hold = NULL;
    hf_error err;
    int before;
    fake f;

    start_fake(&f);
    atomic_store(&f.creates, 1); /* no answer is lost here */
    s = open_session(&f);
    EXPECT_OK(hf_lock(s, "k", NULL, &hold, &err), err);
    before = atomic_load(&f.syncs);
    atomic_store(&f.slow_ms, 100);
    EXPECT_OK(hf_renew(hold, &err), err);
    EXPECT_EQ(atomic_load(&f.syncs) - before, 2);
    EXPECT_EQ(atomic_load(&f.hasty), 0);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
    stop_fake(&f);
}

/* ---- Given up ------------------------------------------------------------ */

/* Nobody believes in the session any more: it is told, the connection ends, and
 * neither a ping nor another connection keeps it alive. */
static void given_up_is_not_kept_alive(void)
{
    int pings, connections;
    int64_t session;
    world w;
    fake f;

    open_fake(&w, &f);
    session = begin(&w, TIMEOUT_MS);
    zk_wire_keep(w.wire, session + 1, hfd_now()); /* not this one */
    EXPECT(WAIT_FOR(atomic_load(&f.pings) > 0, LONG_MS));
    EXPECT_EQ(atomic_load(&w.overs), 0);
    zk_wire_keep(w.wire, session, hfd_now() + HF_MS(TICK_MS));
    EXPECT(WAIT_FOR(atomic_load(&w.overs) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_over), session);
    EXPECT(WAIT_FOR(atomic_load(&f.open) == 0, LONG_MS));
    pings = atomic_load(&f.pings);
    connections = atomic_load(&f.connections);
    test_sleep_ms(3 * TICK_MS);
    EXPECT_EQ(atomic_load(&f.pings), pings);
    EXPECT_EQ(atomic_load(&f.connections), connections);
    EXPECT_EQ(atomic_load(&w.agains), 0);
    close_world(&w);
    stop_fake(&f);
}

/* The server hangs up behind its answer to a goodbye, and the answer may be
 * lost in that: whoever said goodbye has nothing to doubt. */
static void a_goodbye_is_no_doubt(void)
{
    world w;
    fake f;
    ask a;

    open_fake(&w, &f);
    a = make_ask(&w, begin(&w, TIMEOUT_MS), true, LONG_MS);
    atomic_store(&f.rude, true);
    add(&a, ZK_CLOSE, "");
    EXPECT_EQ(drive(&a), HF_UNKNOWN);
    close_world(&w);
    EXPECT_EQ(atomic_load(&w.doubts) + atomic_load(&w.overs), 0);
    stop_fake(&f);
}

/* ---- Whose is it --------------------------------------------------------- */

/* The answer to a creation is lost, and a node with its id is there: but it
 * belongs to another session, and is not ours to hold. */
static void a_node_of_another_session(void)
{
    char name[220];
    hf_session *s;
    hf_hold *hold = NULL;
    hf_error err;
    fake f;

    start_fake(&f);
    s = open_session(&f);
    EXPECT_OK(hf_lock(s, "k", NULL, &hold, &err), err);
    EXPECT_EQ(atomic_load(&f.creates), 2);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
    stop_fake(&f);
    EXPECT_STR(f.deleted, numbered(&f, 8, name, sizeof name));
}

static const test_case cases[] = {
    TEST(counted_from_sendings),     TEST(not_from_what_is_fresh),
    TEST(a_renewal_is_proved),       TEST(given_up_is_not_kept_alive),
    TEST(a_node_of_another_session), TEST(a_goodbye_is_no_doubt),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zk_fake", cases,
                     sizeof cases / sizeof *cases);
}
