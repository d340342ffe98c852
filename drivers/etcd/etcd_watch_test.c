/* etcd_watch_test.c - the stream of watches in bad company.
 *
 * A thread plays the server (etcd_scene.h): it greets late and refuses streams
 * and watches.  Judged: how often it is asked, what is asked in the end, and
 * that nothing comes to a watcher that is gone. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "etcd_scene.h"
#include "grpc_inside.h"
#include "watch.h"

enum { LATE_MS = 300, YOUNG_MS = 1100 };

/* The store is closed while its connection is being opened again: the one that
 * comes to stand then is told to nobody. */
static void closed_while_it_dials(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    hf_place place;

    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) == 1);
    atomic_store(&s->p.late_ms, LATE_MS);
    shutdown(watch.fd, SHUT_RDWR);
    AWAIT(atomic_load(&s->p.connections) == 2);
    scene_close(s);
    EXPECT_EQ(atomic_load(&watch.asked), 1);
}

/* ---- Streams that are refused ------------------------------------------- */

/* As a member does that has no leader. */
static bool refuse_stream(player *p, uint32_t stream,
                          const unsigned char *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    watch.fd = p->fd;
    say_headers(p, stream, "200", "application/grpc");
    say_trailers(p, stream, "14", "etcdserver: no leader");
    say_frame(p, 4, RESET, 0, stream, "\0\0\0\0");
    atomic_fetch_add(&watch.asked, 1);
    return true;
}

static bool answer_well(player *p, uint32_t stream)
{
    say_well(p, stream);
    return true;
}

/* It is not opened again and again: by the next look, which comes late enough,
 * or when another connection stands. */
static void no_leader(void)
{
    scene *s = scene_open(answer_well, refuse_stream);
    hf_place place;

    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) >= 1);
    test_sleep_ms(YOUNG_MS);
    EXPECT_EQ(atomic_load(&watch.asked), 1);
    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) >= 2);
    for (int i = 0; i < 20; i++) { /* many look at once */
        test_sleep_ms(10);
        wait_in_queue(s, &place, HEARD);
    }
    EXPECT_EQ(atomic_load(&watch.asked), 2);
    shutdown(watch.fd, SHUT_RDWR);
    AWAIT(put(s->store.channel, "x", PATIENCE_MS) == HF_APPLIED);
    AWAIT(atomic_load(&watch.asked) >= 3);
    EXPECT_EQ(atomic_load(&s->p.connections), 2);
    scene_close(s);
}

/* ---- Two at once -------------------------------------------------------- */

typedef struct comer {
    scene *s;
    const char *key;
    hf_place place;
    pthread_t thread;
} comer;

static void *run_comer(void *arg)
{
    comer *c = arg;

    wait_at(c->s, &c->place, c->key, HEARD);
    return NULL;
}

static bool is_opening(etcd_watcher *w)
{
    bool open;

    pthread_mutex_lock(&w->mu);
    open = w->open;
    pthread_mutex_unlock(&w->mu);
    return open;
}

/* Somebody begins to wait while another one's thread is about to open the
 * stream: both keys are watched in the end. */
static void comes_while_it_opens(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    comer first = {.s = s, .key = "k"}, second = {.s = s, .key = "l"};
    grpc_conn *conn = grpc_current(s->store.channel);

    EXPECT(conn != NULL);
    EXPECT(hf__pipe_begin(conn->pipe) != NULL); /* nobody else sends */
    EXPECT_EQ(pthread_create(&first.thread, NULL, run_comer, &first), 0);
    AWAIT(is_opening(s->store.watcher));
    EXPECT_EQ(pthread_create(&second.thread, NULL, run_comer, &second), 0);
    pthread_join(second.thread, NULL);
    hf__pipe_end(conn->pipe);
    pthread_join(first.thread, NULL);
    grpc_conn_drop(conn);
    AWAIT(atomic_load(&watch.asked) == 2);
    scene_close(s);
}

/* ---- Watches that are refused ------------------------------------------- */

static struct {
    const char *reason;
    bool nameless; /* it does not say which */
} refusal;

/* The second that is asked for. */
static bool refuse_second(player *p, uint32_t stream,
                          const unsigned char *bytes, size_t len)
{
    hf__buf out = {.data = NULL};
    pb_reader reader = pb_read(bytes + PREFIX, len - PREFIX);
    pb_field field;

    if (atomic_load(&watch.asked) != 1)
        return on_watch(p, stream, bytes, len);
    EXPECT(pb_next(&reader, &field));
    EXPECT_EQ(field.number, 1);
    add_header_of(&out, HEARD, 4);
    pb_int(&out, 2,
           refusal.nameless ? -1 : number_in(field.bytes, field.len, 7));
    pb_int(&out, 3, 1);
    pb_int(&out, 4, 1);
    pb_bytes(&out, 6, refusal.reason, strlen(refusal.reason));
    say_message(p, stream, &out);
    hf__buf_done(&out);
    atomic_fetch_add(&watch.asked, 1);
    return true;
}

static void expect_watched(scene *s)
{
    etcd_watcher *w = s->store.watcher;
    hf_place k, l;

    atomic_store(&s->store.heard, hfd_now());
    wait_at(s, &k, "k", HEARD);
    AWAIT(atomic_load(&watch.asked) == 1);
    test_sleep_ms(YOUNG_MS);
    wait_at(s, &l, "l", HEARD);
    AWAIT(atomic_load(&watch.asked) == 4);
    EXPECT(watch.start[2] + watch.start[3] == HEARD + 1);
    AWAIT(etcd_watch_vouches(w, &k) && etcd_watch_vouches(w, &l));
    EXPECT_EQ(atomic_load(&s->changed), 0);
}

/* What the stream stands for is not valid any more: another one is opened, and
 * all is asked for again, the first behind what it has heard. */
static void watch_is_refused(void)
{
    scene *s;

    refusal.reason = "rpc error: code = PermissionDenied";
    for (int i = 0; i < 2; i++) {
        refusal.nameless = i == 1;
        atomic_store(&watch.asked, 0);
        s = scene_open(answer_nothing, refuse_second);
        expect_watched(s);
        scene_close(s);
    }
}

static bool answer_login(player *p, uint32_t stream)
{
    hf__buf out = {.data = NULL};

    add_header_of(&out, HEARD, 4);
    pb_bytes(&out, 2, "token", 5);
    say_headers(p, stream, "200", "application/grpc");
    say_message(p, stream, &out);
    say_trailers(p, stream, "0", NULL);
    hf__buf_done(&out);
    return true;
}

/* ... and before that somebody logs in, if it is the token. */
static void watch_with_an_old_token(void)
{
    scene *s = scene_open_as("u", answer_login, refuse_second);

    EXPECT_EQ(atomic_load(&s->p.requests), 1);
    refusal.reason = "etcdserver: invalid auth token";
    refusal.nameless = true;
    expect_watched(s);
    EXPECT_EQ(atomic_load(&s->p.requests), 2);
    scene_close(s);
}

static const test_case cases[] = {
    TEST_LIMIT(closed_while_it_dials, 120),   TEST_LIMIT(no_leader, 120),
    TEST_LIMIT(comes_while_it_opens, 120),    TEST_LIMIT(watch_is_refused, 120),
    TEST_LIMIT(watch_with_an_old_token, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_watch", cases,
                     sizeof cases / sizeof *cases);
}
