/* etcd_scene.h - a store of what the watcher and a renewal need, with a thread
 * that plays the server (grpc_player.h) and its watches.  The tests include the
 * harness's expect.h, runner.h and ensemble.h before it. */
#ifndef HF_DRIVERS_ETCD_SCENE_H
#define HF_DRIVERS_ETCD_SCENE_H

#include "grpc_player.h"
#include "store.h"

enum { PATIENCE_MS = 60000, TTL = 30, HEARD = 100, PREFIX = 5 };
#define AWAIT(condition) EXPECT(WAIT_FOR(condition, PATIENCE_MS))

static const hf_id sid = {{0x12, 0x34, 0x56}};
static const hf_id rid = {{7, 7, 7}};

static inline void add_header_of(hf__buf *out, int64_t revision, uint64_t term)
{
    size_t mark = pb_begin(out, 1);

    pb_int(out, 1, 11);
    pb_int(out, 2, 22);
    pb_int(out, 3, revision);
    pb_int(out, 4, (int64_t)term);
    pb_end(out, mark);
}

/* ---- A store of what is needed ------------------------------------------ */

typedef struct scene {
    hf_store store;
    player p;
    world w;
    atomic_int changed;
    atomic_bool freed; /* the watcher */
} scene;

static inline void on_changed(void *ctx, const hf_id *whom,
                              const hf_place *fresh)
{
    EXPECT(whom && memcmp(whom, &rid, sizeof rid) == 0 && !fresh);
    atomic_fetch_add(&((scene *)ctx)->changed, 1);
}

static inline void on_news(void *ctx, const hf_id *whom, int reason)
{
    (void)ctx;
    (void)whom;
    (void)reason;
    FAIL_TEST("there are no news");
}

static inline void scene_standing(void *ctx)
{
    scene *s = ctx;

    EXPECT(!atomic_load(&s->freed));
    etcd_watch_standing(s->store.watcher);
}

static inline void scene_doubt(void *ctx, int code, const char *text)
{
    (void)ctx;
    (void)text;
    EXPECT_EQ(code, HF_EUNAVAIL);
}

typedef bool player_answer(player *p, uint32_t stream);
typedef bool player_message(player *p, uint32_t stream,
                            const unsigned char *bytes, size_t len);

/* user NULL: nobody logs in. */
static inline scene *scene_open_as(const char *user, player_answer *answer,
                                   player_message *message)
{
    scene *s = hfd_alloc(sizeof *s);
    grpc_listener listener = {s, scene_standing, scene_doubt};
    hf__address at = {.host = "127.0.0.1"};
    grpc_settings settings = {.addresses = &at,
                              .address_count = 1,
                              .user = user,
                              .password = user,
                              .dial_time = HF_MS(20000)};
    hf_error err = {0};

    EXPECT(s != NULL);
    start_player(&s->p, answer, NULL);
    s->p.message = message;
    at.port = (uint16_t)s->p.port;
    s->store.host = (hf_host){s, on_changed, on_news, NULL};
    s->store.member_count = 1;
    pthread_mutex_init(&s->store.mu, NULL);
    pthread_mutex_init(&s->store.park_mu, NULL);
    s->store.watcher = etcd_watch_new(&s->store);
    EXPECT(s->store.watcher != NULL);
    EXPECT_OK(grpc_open(&s->store.channel, &settings, &listener, &err), err);
    s->w.channel = s->store.channel;
    start_keeper(&s->w);
    return s;
}

static inline scene *scene_open(player_answer *answer, player_message *message)
{
    return scene_open_as(NULL, answer, message);
}

static inline void scene_close(scene *s)
{
    etcd_watch_free(s->store.watcher);
    atomic_store(&s->freed, true);
    stop_keeper(&s->w);
    grpc_close(s->store.channel);
    while (s->store.spare) {
        etcd_work *work = s->store.spare;

        s->store.spare = work->next;
        etcd_work_free(work);
    }
    stop_player(&s->p);
    hfd_free(s);
}

/* ---- Watches ------------------------------------------------------------ */

static struct {
    atomic_int asked;         /* watches */
    _Atomic int64_t start[8]; /* from where each was; 0: from now on */
    atomic_int connection;    /* of the last one */
    atomic_int fd;            /* ... whose socket */
    _Atomic uint32_t stream;  /* ... and stream on it */
    _Atomic int64_t id;       /* ... and number */
} watch;

static inline int64_t number_in(const char *bytes, size_t len, unsigned number)
{
    pb_reader reader = pb_read(bytes, len);
    pb_field field;
    int64_t ret = 0;

    while (pb_next(&reader, &field)) {
        if (field.number == number)
            ret = (int64_t)field.value;
    }
    return ret;
}

static inline bool on_watch(player *p, uint32_t stream,
                            const unsigned char *bytes, size_t len)
{
    pb_reader reader;
    pb_field field;
    hf__buf out = {.data = NULL};
    int n = atomic_load(&watch.asked);

    EXPECT(len > PREFIX && n < 8);
    reader = pb_read(bytes + PREFIX, len - PREFIX);
    EXPECT(pb_next(&reader, &field));
    if (field.number != 1)
        return true; /* one is cancelled */
    watch.start[n] = number_in(field.bytes, field.len, 3);
    watch.id = number_in(field.bytes, field.len, 7);
    if (watch.connection != atomic_load(&p->connections) ||
        watch.stream != stream)
        say_headers(p, stream, "200", "application/grpc");
    watch.connection = atomic_load(&p->connections);
    watch.stream = stream;
    watch.fd = p->fd;
    add_header_of(&out, HEARD, 4);
    pb_int(&out, 2, watch.id);
    pb_int(&out, 3, 1);
    say_message(p, stream, &out);
    hf__buf_done(&out);
    atomic_fetch_add(&watch.asked, 1);
    return true;
}

static inline bool answer_nothing(player *p, uint32_t stream)
{
    (void)p;
    FAIL_TEST("nothing is asked for on stream %u", stream);
}

static inline void say_deletion(const char *key, int64_t revision)
{
    player last = {.fd = watch.fd};
    hf__buf out = {.data = NULL};
    size_t event, kv;

    add_header_of(&out, revision, 4);
    pb_int(&out, 2, watch.id);
    event = pb_begin(&out, 11);
    pb_int(&out, 1, 1);
    kv = pb_begin(&out, 2);
    pb_bytes(&out, 1, key, strlen(key));
    pb_int(&out, 3, revision);
    pb_end(&out, kv);
    pb_end(&out, event);
    say_message(&last, watch.stream, &out);
    hf__buf_done(&out);
}

static inline void say_compacted(int64_t revision)
{
    player last = {.fd = watch.fd};
    hf__buf out = {.data = NULL};

    add_header_of(&out, revision, 4);
    pb_int(&out, 2, watch.id);
    pb_int(&out, 4, 1);
    pb_int(&out, 5, revision);
    say_message(&last, watch.stream, &out);
    hf__buf_done(&out);
}

/* It waits there for .../7b, as it was seen at that revision. */
static inline void wait_at(scene *s, hf_place *place, const char *key,
                           int64_t seen)
{
    etcd_ahead ahead = {.hash = etcd_hash((etcd_text){"7b", 2})};

    *place = (hf_place){.rid = rid,
                        .key = key,
                        .key_len = (uint16_t)strlen(key),
                        .mode = HF_EXCLUSIVE,
                        .num = HEARD - 1,
                        .own = {0, HF_PLACE_PUSH | ETCD_PLACE_PLAIN}};
    etcd_watch_add(s->store.watcher, place, etcd_lease_of(&sid), &ahead, seen);
}

static inline void wait_in_queue(scene *s, hf_place *place, int64_t seen)
{
    wait_at(s, place, "k", seen);
}

#endif
