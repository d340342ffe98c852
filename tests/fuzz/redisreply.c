/* redisreply.c - any replies under the whole Redis driver, or the Redlock one.
 *
 * The store is the real one; what is not real is its wire: a server that
 * answers whatever the bytes say, or loses the answer.  A few operations of
 * driver.h are asked of it, in the native layout, in those of other libraries,
 * in a cluster's; messages come in between.  Compiled twice: with the files of
 * drivers/redis, and with those of drivers/redlock (FUZZ_REDLOCK).
 *
 * Promises: every command that goes out is a whole one; every operation ends,
 * once, with an outcome and a code that it may have; a place that is answered
 * has a verdict, and times that can be counted with; no session lasts longer
 * than it asked for; a grant has a token where the store has tokens, and
 * nothing else has one; nothing is left in memory. */
#include "host.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "../../drivers/redis/store.h"
#include "base/url.h"

enum { OPS = 6, CALLS_MOST = 5000, ITEMS = 16, CHANNEL = 512 };

/* ---- The wire ------------------------------------------------------------ */

struct redis_wire {
    redis_wire *next; /* of all */
    redis_listener listener;
    redis_call *first, *last; /* to be answered */
    char channel[CHANNEL];    /* the last that was listened to */
    size_t channel_len;
    int fd, bell; /* always readable: something may be here */
};

static redis_wire *wires;
static fuzz_input in;
static hf_id rid, sid;
static unsigned calls;
static uint32_t caps;

int redis_wire_open(redis_wire **ret, const redis_settings *settings,
                    const redis_listener *listener, hf_error *err)
{
    redis_wire *wire = hfd_alloc(sizeof *wire);
    struct epoll_event event = {.events = EPOLLIN};

    (void)err;
    PROMISE(wire != NULL && settings->most > 0);
    wire->listener = *listener;
    wire->fd = epoll_create1(EPOLL_CLOEXEC);
    wire->bell = eventfd(1, EFD_CLOEXEC);
    PROMISE(epoll_ctl(wire->fd, EPOLL_CTL_ADD, wire->bell, &event) == 0);
    wire->next = wires;
    wires = wire;
    *ret = wire;
    return 0;
}

void redis_wire_close(redis_wire *wire)
{
    redis_wire **at = &wires;

    if (!wire)
        return;
    PROMISE(!wire->first);
    while (*at != wire)
        at = &(*at)->next;
    *at = wire->next;
    close(wire->fd);
    close(wire->bell);
    hfd_free(wire);
}

void redis_wire_abandon(redis_wire *wire)
{
    close(wire->fd);
}

void redis_wire_start(redis_wire *wire, redis_call *call)
{
    call->next = NULL;
    if (wire->first)
        wire->last->next = call;
    else
        wire->first = call;
    wire->last = call;
}

int redis_wire_fd(redis_wire *wire)
{
    return wire->fd;
}

bool redis_wire_server(redis_wire *wire, redis_server *ret)
{
    (void)wire;
    *ret = (redis_server){.version = 70015, .born = 1};
    memset(ret->run_id, 'a', sizeof ret->run_id - 1);
    return true;
}

int redis_wire_listen(redis_wire *wire, const char *channel, size_t len,
                      bool pattern)
{
    (void)pattern;
    wire->channel_len = len < CHANNEL ? len : CHANNEL;
    memcpy(wire->channel, channel, wire->channel_len);
    return 0;
}

void redis_wire_unlisten(redis_wire *wire, const char *channel, size_t len,
                         bool pattern)
{
    (void)wire;
    (void)pattern;
    PROMISE(channel != NULL && len > 0);
}

void redis_wire_park(redis_wire *wire, hf__waiter *w, hf_nsec until)
{
    (void)wire;
    (void)w;
    (void)until;
}

void redis_wire_wake(redis_wire *wire, hf__waiter *w)
{
    (void)wire;
    (void)w;
}

/* ---- What it answers ----------------------------------------------------- */

static void add_text(hf__buf *out, const void *text, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof head, "$%zu\r\n", len);

    hf__buf_add(out, head, (size_t)n);
    hf__buf_add(out, text, len);
    hf__buf_add(out, "\r\n", 2);
}

static void add_number(hf__buf *out)
{
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, -1, -2, -3, 1 << 20};
    unsigned how = take_byte(&in);
    int64_t number = how < 128   ? how % 8
                     : how < 160 ? odd[how % 6]
                     : how < 200 ? hfd_realtime_us()
                                 : (int64_t)take_number(&in, how % 8 + 1);
    char text[32];
    int len = snprintf(text, sizeof text, "%lld", (long long)number);

    if (how & 1) {
        add_text(out, text, (size_t)len);
        return;
    }
    hf__buf_add(out, ":", 1);
    hf__buf_add(out, text, (size_t)len);
    hf__buf_add(out, "\r\n", 2);
}

static void add_bytes(hf__buf *out)
{
    unsigned how = take_byte(&in);
    char bytes[64];
    size_t len = how % sizeof bytes;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)take_byte(&in);
    if (how & 64) /* an id, as it is written */
        add_text(out, how & 1 ? &rid : &sid, sizeof rid);
    else
        add_text(out, bytes, len);
}

static void build(hf__buf *out, unsigned depth)
{
    unsigned kind = take_byte(&in), n = take_byte(&in) % ITEMS;
    char head[16];

    switch (depth == 0 && kind < 160 ? 7 : kind % 7) {
    case 0:
        hf__buf_add(out, "$-1\r\n", 5);
        return;
    case 1:
        hf__buf_add(out, "+OK\r\n", 5);
        return;
    case 2:
    case 3:
        add_bytes(out);
        return;
    case 7:
        if (depth == 3)
            n = 0;
        hf__buf_add(out, head,
                    (size_t)snprintf(head, sizeof head, "*%u\r\n", n));
        while (n-- > 0)
            build(out, depth + 1);
        return;
    default:
        add_number(out);
    }
}

static void check_command(redis_call *call)
{
    hf__buf out = {0};
    redis_server server;
    long size;

    redis_wire_server(NULL, &server);
    call->before = 0;
    call->encode(call, &out, &server);
    PROMISE(!out.failed && hf__buf_len(&out) > 0);
    size = resp_size(out.data + out.start, hf__buf_len(&out));
    PROMISE(size > 0);
    hf__buf_done(&out);
}

static void answer(redis_wire *wire)
{
    redis_call *call = wire->first;
    unsigned how = take_byte(&in);
    hf__buf text = {0};
    hf_error why = {0};
    resp reply;

    wire->first = call->next;
    PROMISE(++calls < CALLS_MOST);
    check_command(call);
    call->sent = hfd_now();
    call->acked = call->waits ? (uint8_t)how : 255;
    if (in.at == in.end || how < 8) {
        hfd_error(&why, HF_EUNAVAIL, "fuzz", 0, "lost");
        call->landed(call, how & 1 ? HF_NOT_APPLIED : HF_UNKNOWN, NULL, &why);
        return;
    }
    build(&text, 0);
    PROMISE(!text.failed);
    reply = resp_at(text.data + text.start);
    call->landed(call, HF_APPLIED, &reply, NULL);
    hf__buf_done(&text);
}

static void answer_all(void)
{
    for (redis_wire *wire = wires; wire;) {
        if (wire->first) {
            answer(wire);
            wire = wires;
        } else {
            wire = wire->next;
        }
    }
}

void redis_wire_drive(redis_wire *wire, redis_call *call)
{
    (void)wire;
    (void)call;
    answer_all();
}

bool redis_wire_drive_for(redis_wire *wire, redis_call *call, hf_nsec until)
{
    (void)call;
    (void)until;
    while (wire->first)
        answer(wire);
    return true;
}

void redis_wire_dispatch(redis_wire *wire)
{
    (void)wire;
    answer_all();
}

/* ---- The core ------------------------------------------------------------ */

static int emit_row(const hf_row *row, void *user)
{
    (void)user;
    PROMISE(row->info.key != NULL);
    return 0;
}

static void check_place(const hf_place *place, bool left)
{
    PROMISE(place->verdict == HF_GRANTED || place->verdict == HF_WAITS ||
            place->verdict == HF_GONE);
    PROMISE(place->remaining >= 0 && place->look_in >= 0);
    PROMISE(place->verdict == HF_GRANTED || place->token == 0);
    /* Of a leave the verdict says what it was. */
    PROMISE(left || place->verdict != HF_GRANTED || place->token != 0 ||
            !(caps & HF_CAP_TOKEN));
}

static void ask(const hf_driver *driver, hf_store *store)
{
    static const char key[] = "key";
    unsigned how = take_byte(&in), mode = take_byte(&in) % 3;
    hf_place place = {.key = key,
                      .key_len = 3,
                      .rid = rid,
                      .mode = (uint8_t)mode,
                      .places = mode == HF_PERMIT ? 2 : 0,
                      .lease = how & 64 ? HF_MS(5000) : 0,
                      .run = 1},
             *places[] = {&place};
    hf_op op = {.kind = (hf_op_kind)(1 + how % HF_OP_PROBE),
                .sid = sid,
                .deadline = hfd_now() + HF_MS(2000),
                .ttl = HF_MS(30000),
                .place = &place,
                .places = places,
                .place_count = 1,
                .text = key,
                .text_len = 3,
                .value = key,
                .value_len = how & 64 ? 3 : 0,
                .keep = how & 128 ? HF_MS(50) : 0,
                .only_if_granted = how & 32,
                .tomb = how & 16,
                .now = how & 16,
                .only_mine = how & 32,
                .driven = true,
                .emit_row = emit_row,
                .emit_finding = emit_finding,
                .done = done};

    ended = 0;
    driver->start(store, &op);
    driver->drive(store, &op);
    answer_all();
    PROMISE(ended == 1);
    PROMISE(op.outcome == HF_APPLIED || op.outcome == HF_NOT_APPLIED ||
            op.outcome == HF_UNKNOWN);
    PROMISE(op.error.code < 0 || op.outcome == HF_APPLIED);
    PROMISE(op.remaining >= 0 && op.remaining <= op.ttl);
    if (op.error.code == 0 &&
        (op.kind == HF_OP_JOIN || op.kind == HF_OP_RECHECK ||
         op.kind == HF_OP_LEAVE || op.kind == HF_OP_CONFIRM))
        check_place(&place, op.kind == HF_OP_LEAVE);
}

/* A message on a channel that was listened to. */
static void tell(void)
{
    char text[96];
    size_t len = take_byte(&in) % sizeof text;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)take_byte(&in);
    for (redis_wire *wire = wires; wire; wire = wire->next) {
        if (wire->channel_len > 0 && wire->listener.message)
            wire->listener.message(wire->listener.ctx, wire->channel,
                                   wire->channel_len, text, len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
#ifdef FUZZ_REDLOCK
    static const char *const urls[] = {
        "redlock://a,b,c", "redlock://a,b,c?token=no",
        "redlock://a,b,c,d,e?strict=yes&max_lease_ms=30000"};
#else
    static const char *const urls[] = {"redis://a",
                                       "redis://a?strict=yes",
                                       "redis://a?format=simple",
                                       "redis://a?format=spring",
                                       "redis://a?format=redisson&fenced=yes",
                                       "redis+cluster://a",
                                       "redis://a?replicas=1"};
#endif
    const hf_driver *driver = hf_driver_entry();
    hf_host host = {.changed = changed, .news = news, .doubt = doubt};
    hf_store *store = NULL;
    hf_url *url = NULL;
    hf_error err = {.code = 0};

    in = (fuzz_input){data, data + size};
    calls = 0;
    rid.bytes[15] = sid.bytes[14] = 1;
    PROMISE(hf__url_parse(&url,
                          urls[take_byte(&in) % (sizeof urls / sizeof *urls)],
                          &err) == 0);
    if (driver->open(&store, url, &host, &caps, &err) == 0) {
        for (unsigned i = 0; i < OPS && in.at < in.end; i++) {
            ask(driver, store);
            tell();
        }
        driver->close(store);
    } else {
        PROMISE(err.code < 0 && err.text[0] != '\0');
    }
    PROMISE(!wires);
    hf__url_free(url);
    return 0;
}
