/* wire_fake_test.c - what the wire makes of a server that a real one never is.
 *
 * The server here is a thread that reads frames and answers by a script, one
 * act for each connection: other ids (some servers give a new session silently
 * where ZooKeeper says that the old one is over), numbers out of turn, lengths
 * that lie, halves, silence.  Everything else is tested with real servers. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "record_text.h"
#include "wire_world.h"

typedef enum act {
    SERVE, /* what is asked is answered, in order */
    CLOSE_AT_HELLO,
    SILENT_AT_HELLO,
    HTTP_AT_HELLO,
    HALF_HELLO,
    REFUSE_AUTH,
    NO_SESSION,    /* the answer to one that is over */
    OTHER_SESSION, /* a new one, silently */
    SHORTER,       /* the same with a shorter timeout */
    /* to the first request: */
    WRONG_NUMBER,
    HUGE_LENGTH,
    SHORT_FRAME,
    LONG_FRAME,
    HALF_REPLY,
    TWO_REPLIES,
    EXPIRED,
    MOVED
} act;

enum { ACTS = 8, TIMEOUT_MS = 60000, GIVEN = 0x1000 };

typedef struct fake {
    int listener, port;
    pthread_t thread;
    act acts[ACTS]; /* of the connections, in order; the last one goes on */
    int count;
    atomic_int connections;
    atomic_llong asked_session, asked_zxid; /* by the last one */
    int64_t zxid;
} fake;

/* ---- The server ---- */

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

static uint64_t number_at(const unsigned char *bytes, unsigned size)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < size; i++)
        n = n << 8 | bytes[i];
    return n;
}

static bool read_one(int fd, record *t)
{
    unsigned char length[4];

    if (!read_all(fd, length, 4))
        return false;
    t->len = (size_t)number_at(length, 4);
    EXPECT(t->len <= sizeof t->bytes);
    return read_all(fd, t->bytes, t->len);
}

/* The frame's length is what it says, not always what is right. */
static void send_frame(int fd, const record *t, size_t says, size_t bytes)
{
    record out = {0};

    put(&out, says, 4);
    memcpy(out.bytes + out.len, t->bytes, bytes);
    EXPECT(send(fd, out.bytes, out.len + bytes, MSG_NOSIGNAL) != 0);
}

static bool say_hello(fake *f, int fd, act how)
{
    record in, out = {0};
    int64_t session;
    bool half = how == HALF_HELLO;

    if (!read_one(fd, &in))
        return false;
    session = (int64_t)number_at(in.bytes + 16, 8);
    atomic_store(&f->asked_zxid, (int64_t)number_at(in.bytes + 4, 8));
    atomic_store(&f->asked_session, session);
    if (how == CLOSE_AT_HELLO)
        return false;
    if (how == SILENT_AT_HELLO)
        return read_one(fd, &in) && false;
    if (how == HTTP_AT_HELLO) {
        const char *text = "HTTP/1.1 400 Bad Request\r\n\r\n";

        EXPECT(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
        return read_one(fd, &in) && false;
    }
    if (session == 0 || how == OTHER_SESSION)
        session = GIVEN + atomic_load(&f->connections);
    put(&out, 0, 4);
    put(&out,
        how == NO_SESSION ? 0
        : how == SHORTER  ? TIMEOUT_MS / 2
                          : TIMEOUT_MS,
        4);
    put(&out, how == NO_SESSION ? 0 : (uint64_t)session, 8);
    put_text(&out, "sixteen bytes ok");
    put(&out, 0, 1);
    send_frame(fd, &out, out.len, half ? out.len / 2 : out.len);
    if (how == REFUSE_AUTH) {
        EXPECT(read_one(fd, &in));
        out.len = 0;
        put_header(&out, ZK_XID_AUTH, 0, ZK_AUTH_FAILED);
        send_frame(fd, &out, out.len, out.len);
        return false;
    }
    return !half;
}

static void answer(fake *f, int fd, act how, const record *in)
{
    int32_t xid = (int32_t)number_at(in->bytes, 4);
    record out = {0};
    size_t says, bytes;

    f->zxid++;
    put_header(&out, how == WRONG_NUMBER ? xid + 1 : xid, f->zxid,
               how == EXPIRED ? ZK_SESSION_EXPIRED
               : how == MOVED ? ZK_SESSION_MOVED
                              : 0);
    if (number_at(in->bytes + 4, 4) == ZK_SYNC && how != EXPIRED)
        put_text(&out, "/");
    says = bytes = out.len;
    if (how == HUGE_LENGTH)
        says = 0x7fffffff;
    else if (how == SHORT_FRAME)
        says = bytes = 8;
    else if (how == LONG_FRAME)
        says = bytes = out.len + 3;
    else if (how == HALF_REPLY)
        bytes = out.len / 2;
    send_frame(fd, &out, says, bytes);
    if (how == TWO_REPLIES)
        send_frame(fd, &out, says, bytes);
}

static void serve(fake *f, int fd, act how)
{
    record in;

    if (!say_hello(f, fd, how))
        return;
    if (how < WRONG_NUMBER)
        how = SERVE;
    while (read_one(fd, &in)) {
        if ((int32_t)number_at(in.bytes, 4) == ZK_XID_PING)
            continue;
        answer(f, fd, how, &in);
        if (how == HALF_REPLY)
            return;
    }
}

static void *run_fake(void *arg)
{
    fake *f = arg;
    int fd;

    while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int n = atomic_fetch_add(&f->connections, 1);

        serve(f, fd, f->acts[n < f->count ? n : f->count - 1]);
        close(fd);
    }
    return NULL;
}

static void start_fake(fake *f, const act *acts, int count)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    memset(f, 0, sizeof *f);
    memcpy(f->acts, acts, (size_t)count * sizeof *acts);
    f->count = count;
    f->zxid = 100;
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

static void open_fake(world *w, fake *f, const act *acts, int count)
{
    start_fake(f, acts, count);
    open_ports(w, &f->port, 1);
    start_keeper(w);
}

static void close_fake(world *w, fake *f)
{
    close_world(w);
    stop_fake(f);
}

/* A request whose connection is broken by its answer. */
static void sync_badly(world *w, int64_t session, int code)
{
    ask a = make_ask(w, session, true, LONG_MS);

    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_UNKNOWN);
    EXPECT_EQ(a.error.code, code);
    EXPECT_HAS(a.error.text, "127.0.0.1:");
}

/* ---- The session's end ---- */

/* The first connection breaks; the second says something about the session. */
static void expect_over(act second, const char *text)
{
    act acts[] = {HALF_REPLY, second, SERVE};
    world w;
    fake f;
    ask a;
    int64_t session;

    open_fake(&w, &f, acts, 3);
    session = begin(&w, 60000);
    EXPECT_EQ(session, GIVEN + 1);
    sync_badly(&w, session, HF_EUNAVAIL);
    EXPECT(WAIT_FOR(atomic_load(&w.overs) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_over), session);
    EXPECT_HAS(w.last_text, text);
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.agains), 0);
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    /* It does not begin a new one by itself. */
    EXPECT_EQ(atomic_load(&f.connections), 2);
    EXPECT(begin(&w, 60000) != session);
    EXPECT_EQ(atomic_load(&f.asked_session), 0);
    EXPECT_EQ(atomic_load(&f.asked_zxid), 0);
    close_fake(&w, &f);
}

static void says_over(void)
{
    expect_over(NO_SESSION, "expired");
}

static void gives_another(void)
{
    expect_over(OTHER_SESSION, "new session");
}

static void gives_less_time(void)
{
    expect_over(SHORTER, "shorter");
}

/* The word comes with a reply. */
static void expect_over_by_reply(act how, int32_t error, const char *text)
{
    act acts[] = {how, SERVE};
    world w;
    fake f;
    ask a;
    int64_t session;

    open_fake(&w, &f, acts, 2);
    session = begin(&w, 60000);
    a = make_ask(&w, session, true, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, error);
    EXPECT(WAIT_FOR(atomic_load(&w.overs) == 1, LONG_MS));
    EXPECT_HAS(w.last_text, text);
    a = make_ask(&w, session, false, LONG_MS);
    add(&a, ZK_SYNC, "/");
    EXPECT_EQ(drive(&a), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EEXPIRED);
    EXPECT_EQ(atomic_load(&f.connections), 1);
    close_fake(&w, &f);
}

static void expired_by_reply(void)
{
    expect_over_by_reply(EXPIRED, ZK_SESSION_EXPIRED, "expired");
}

static void moved_by_reply(void)
{
    expect_over_by_reply(MOVED, ZK_SESSION_MOVED, "moved");
}

/* ---- Nonsense ---- */

/* The connection is given up, and the session stands on the next one. */
static void expect_cut(act how, int code)
{
    act acts[] = {how, SERVE};
    world w;
    fake f;
    int64_t session;

    open_fake(&w, &f, acts, 2);
    session = begin(&w, 60000);
    sync_badly(&w, session, code);
    EXPECT(WAIT_FOR(atomic_load(&w.agains) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.last_again), session);
    EXPECT_EQ(atomic_load(&f.asked_session), session);
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == 1, LONG_MS));
    EXPECT_EQ(atomic_load(&w.overs), 0);
    close_fake(&w, &f);
}

static void wrong_number(void)
{
    expect_cut(WRONG_NUMBER, HF_EPROTO);
}

static void huge_length(void)
{
    expect_cut(HUGE_LENGTH, HF_EPROTO);
}

static void short_frame(void)
{
    expect_cut(SHORT_FRAME, HF_EPROTO);
}

static void long_frame(void)
{
    expect_cut(LONG_FRAME, HF_EPROTO);
}

static void half_reply(void)
{
    expect_cut(HALF_REPLY, HF_EUNAVAIL);
}

/* The first is taken, the second belongs to nobody. */
static void two_replies(void)
{
    act acts[] = {TWO_REPLIES, SERVE};
    world w;
    fake f;
    int64_t session;

    open_fake(&w, &f, acts, 2);
    session = begin(&w, 60000);
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.agains) == 1, LONG_MS));
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    /* What was seen in the first connection is asked for in the second. */
    EXPECT_EQ(atomic_load(&f.asked_zxid), 101);
    close_fake(&w, &f);
}

/* ---- Handshakes ---- */

/* Members that do not take us (they are behind what we have seen, mostly): the
 * next one does, and the session is the same. */
static void next_member(void)
{
    act first[] = {HALF_REPLY, CLOSE_AT_HELLO}, second[] = {CLOSE_AT_HELLO},
        third[] = {HALF_REPLY, SERVE};
    fake f[3];
    world w;
    int64_t session = 0;
    int ports[3];

    start_fake(&f[0], first, 2);
    start_fake(&f[1], second, 1);
    start_fake(&f[2], third, 2);
    for (int i = 0; i < 3; i++)
        ports[i] = f[i].port;
    open_ports(&w, ports, 3);
    start_keeper(&w);
    session = begin(&w, 60000);
    for (int i = 0; i < 50; i++) {
        ask a = make_ask(&w, session, true, LONG_MS);

        add(&a, ZK_SYNC, "/");
        drive(&a);
        EXPECT(a.outcome == HF_APPLIED || a.outcome == HF_UNKNOWN);
    }
    EXPECT_EQ(ask_one(&w, session, ZK_SYNC, "/"), 0);
    EXPECT_EQ(atomic_load(&w.overs), 0);
    EXPECT(WAIT_FOR(atomic_load(&w.agains) > 0, LONG_MS));
    EXPECT(WAIT_FOR(atomic_load(&w.doubts) == atomic_load(&w.agains), LONG_MS));
    EXPECT_EQ(atomic_load(&f[2].asked_session), session);
    close_world(&w);
    for (int i = 0; i < 3; i++)
        stop_fake(&f[i]);
}

static void expect_no_session(act how, int code, const char *text)
{
    world w;
    fake f;
    ask a;

    open_fake(&w, &f, &how, 1);
    EXPECT_EQ(try_begin(&a, &w, 10000, true, 700), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, code);
    EXPECT_HAS(a.error.text, text);
    /* Nobody drives it: the same by another thread. */
    EXPECT_EQ(try_begin(&a, &w, 10000, false, 700), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, code);
    EXPECT_EQ(atomic_load(&w.overs) + atomic_load(&w.doubts), 0);
    close_fake(&w, &f);
}

static void no_session(void)
{
    expect_no_session(CLOSE_AT_HELLO, HF_EUNAVAIL, "at the handshake");
    expect_no_session(SILENT_AT_HELLO, HF_EUNAVAIL, "in time");
    expect_no_session(HTTP_AT_HELLO, HF_EPROTO, "not a ZooKeeper server");
    expect_no_session(HALF_HELLO, HF_EUNAVAIL, "at the handshake");
    expect_no_session(NO_SESSION, HF_EUNAVAIL, "no session");
}

static void auth_refused(void)
{
    act acts[] = {REFUSE_AUTH};
    hf__address address = {"127.0.0.1", 0, NULL};
    zk_settings settings = {.addresses = &address,
                            .address_count = 1,
                            .auth = "bob:s3cret",
                            .dial_time = HF_MS(2000)};
    hf_error err = {0};
    world w = {0};
    fake f;
    ask a;

    start_fake(&f, acts, 1);
    address.port = (uint16_t)f.port;
    EXPECT_OK(open_wire(&w, &settings, &err), err);
    EXPECT_EQ(try_begin(&a, &w, 10000, true, LONG_MS), HF_NOT_APPLIED);
    EXPECT_EQ(a.error.code, HF_EAUTH);
    EXPECT(!strstr(a.error.text, "s3cret"));
    close_fake(&w, &f);
}

static const test_case cases[] = {
    TEST(says_over),      TEST(gives_another), TEST(gives_less_time),
    TEST(moved_by_reply), TEST(wrong_number),  TEST(expired_by_reply),
    TEST(huge_length),    TEST(short_frame),   TEST(long_frame),
    TEST(half_reply),     TEST(two_replies),   TEST(next_member),
    TEST(no_session),     TEST(auth_refused),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wire_fake", cases,
                     sizeof cases / sizeof *cases);
}
