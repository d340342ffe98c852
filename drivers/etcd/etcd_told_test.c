/* etcd_told_test.c - what a renewal and a watch make of answers that no healthy
 * server gives on demand.
 *
 * A thread plays the server (grpc_player.h): keepalives of a leader that was
 * replaced, of a lease that is over, of another lease; watches that are told of
 * deletions, break, are compacted.  The driver's own functions are called, with
 * a store that consists of what they need. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "etcd_scene.h"

/* What the server is to say, and what it saw. */
static struct {
    _Atomic uint64_t keepalive_term, read_term;
    _Atomic int64_t ttl, lease;
    _Atomic hf_nsec asked; /* when the keepalive came */
} renewal;

/* ---- Renewals ----------------------------------------------------------- */

/* A keepalive is asked for first, then a read. */
static bool answer_renewal(player *p, uint32_t stream)
{
    hf__buf out = {.data = NULL};

    if (p->seen % 2 == 1) {
        atomic_store(&renewal.asked, hfd_now());
        test_sleep_ms(30); /* an answer that takes its time */
        add_header_of(&out, HEARD, renewal.keepalive_term);
        pb_int(&out, 2, renewal.lease);
        pb_int(&out, 3, renewal.ttl);
    } else {
        add_header_of(&out, HEARD, renewal.read_term);
    }
    say_headers(p, stream, "200", "application/grpc");
    say_message(p, stream, &out);
    say_trailers(p, stream, "0", NULL);
    hf__buf_done(&out);
    return true;
}

static void note_done(hf_op *op)
{
    op->core = op;
}

static hf_op renew(scene *s)
{
    hf_op op = {.kind = HF_OP_RENEW,
                .sid = sid,
                .deadline = hfd_now() + HF_MS(PATIENCE_MS),
                .driven = true,
                .done = note_done};

    etcd_renew(&s->store, &op);
    grpc_drive(s->store.channel, &etcd_own_of(&op)->call);
    EXPECT(op.core == &op);
    return op;
}

/* One that was replaced and has not noticed answers keepalives; the read by a
 * majority that follows shows that there is another (servers before 3.4.31). */
static void renewal_of_one_leader(void)
{
    scene *s = scene_open(answer_renewal, NULL);
    hf_op op;

    renewal.lease = etcd_lease_of(&sid);
    renewal.ttl = TTL;
    renewal.keepalive_term = renewal.read_term = 4;
    op = renew(s);
    EXPECT_EQ(op.outcome, HF_APPLIED);
    EXPECT_EQ(op.error.code, 0);
    EXPECT_EQ(op.remaining, HF_MS(TTL * 1000));
    EXPECT(op.sent > 0 && op.sent <= atomic_load(&renewal.asked));
    renewal.read_term = 5;
    op = renew(s);
    EXPECT_EQ(op.outcome, HF_UNKNOWN);
    EXPECT_EQ(op.error.code, HF_EUNAVAIL);
    renewal.keepalive_term = 6;
    op = renew(s);
    EXPECT_EQ(op.outcome, HF_UNKNOWN);
    scene_close(s);
}

/* No seconds left: that is how the end of a lease is said. */
static void renewal_of_what_is_over(void)
{
    scene *s = scene_open(answer_renewal, NULL);
    hf_op op;

    renewal.lease = etcd_lease_of(&sid) + 1;
    renewal.ttl = TTL;
    renewal.keepalive_term = renewal.read_term = 4;
    op = renew(s); /* somebody else's: this is no answer */
    EXPECT_EQ(op.outcome, HF_UNKNOWN);
    scene_close(s);
    s = scene_open(answer_renewal, NULL);
    renewal.lease--;
    renewal.ttl = 0;
    op = renew(s);
    EXPECT_EQ(op.outcome, HF_APPLIED);
    EXPECT_EQ(op.error.code, HF_EEXPIRED);
    scene_close(s);
}

/* ---- Late answers ------------------------------------------------------- */

static atomic_bool deaf;  /* nothing is answered */
static atomic_int landed; /* calls of which nobody waits */

static bool answer_but_the_first(player *p, uint32_t stream)
{
    hf__buf out = {.data = NULL};

    if (atomic_load(&deaf) || atomic_load(&p->requests) == 1)
        return true;
    add_header_of(&out, HEARD, 4);
    if (p->seen % 2 == 0) {
        pb_int(&out, 2, etcd_lease_of(&sid));
        pb_int(&out, 3, TTL);
    }
    say_headers(p, stream, "200", "application/grpc");
    say_message(p, stream, &out);
    say_trailers(p, stream, "0", NULL);
    hf__buf_done(&out);
    return true;
}

static void note_landed(hf_op *op)
{
    EXPECT_EQ(op->outcome, HF_UNKNOWN);
    atomic_fetch_add(&landed, 1);
}

/* One answer that is late is no reason to go to another member, as long as this
 * one answers others by a majority; silence is. */
static void one_is_late(void)
{
    scene *s = scene_open(answer_but_the_first, NULL);
    hf_op late = {.kind = HF_OP_RENEW, .sid = sid, .done = note_landed};
    hf_op silence = late;
    char member[64];

    s->store.member_count = 2;
    late.deadline = hfd_now() + HF_MS(1500);
    etcd_renew(&s->store, &late);
    AWAIT(atomic_load(&s->p.requests) == 1);
    EXPECT_EQ(renew(s).outcome, HF_APPLIED);
    AWAIT(atomic_load(&landed) == 1);
    EXPECT_EQ(renew(s).outcome, HF_APPLIED);
    EXPECT_EQ(atomic_load(&s->p.connections), 1);
    atomic_store(&deaf, true);
    silence.deadline = hfd_now() + HF_MS(500);
    etcd_renew(&s->store, &silence);
    AWAIT(atomic_load(&landed) == 2);
    grpc_member(s->store.channel, member, sizeof member);
    EXPECT_EQ(member[0], '\0'); /* given up */
    scene_close(s);
}

/* ---- Names -------------------------------------------------------------- */

static bool answer_full(player *p, uint32_t stream)
{
    say_headers(p, stream, "200", "application/grpc");
    say_trailers(p, stream, "8", "etcdserver: mvcc: database space exceeded");
    return true;
}

/* A join that was refused has put nothing there: the name is not kept for what
 * may still come. */
static void refused_join_frees_its_name(void)
{
    scene *s = scene_open(answer_full, NULL);
    hf_place place = {
        .rid = rid, .key = "k", .key_len = 1, .mode = HF_EXCLUSIVE};
    hf_op op = {.kind = HF_OP_JOIN,
                .sid = sid,
                .place = &place,
                .deadline = hfd_now() + HF_MS(PATIENCE_MS),
                .driven = true,
                .done = note_done};

    etcd_join(&s->store, &op);
    grpc_drive(s->store.channel, &etcd_own_of(&op)->call);
    EXPECT(op.core == &op);
    EXPECT_EQ(op.outcome, HF_NOT_APPLIED);
    for (size_t i = 0; i < ETCD_SLOTS; i++)
        EXPECT_EQ(s->store.slots[i].joins, 0);
    scene_close(s);
}

/* ---- Watches ------------------------------------------------------------ */

/* Exactly those deletions that concern it are told, and after a break the
 * watch goes on behind the last one that was heard. */
static void watch_goes_on(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    hf_place place;
    char mine[40];

    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) == 1);
    EXPECT_EQ(watch.start[0], 0);
    say_deletion("k/7b/7c", HEARD + 1); /* of a lock named k/7b */
    say_deletion("k/8", HEARD + 2);     /* of somebody else */
    say_deletion("k/7b", HEARD);        /* it knew that */
    say_deletion("k/7b", HEARD + 3);
    AWAIT(atomic_load(&s->changed) == 1);
    wait_in_queue(s, &place, HEARD + 3);
    shutdown(watch.fd, SHUT_RDWR);
    AWAIT(atomic_load(&watch.asked) == 2);
    EXPECT_EQ(watch.start[1], HEARD + 4);
    EXPECT_EQ(atomic_load(&s->changed), 1);
    say_deletion("k/7b", HEARD + 4); /* while nobody listened */
    AWAIT(atomic_load(&s->changed) == 2);
    /* Somebody takes its own key away. */
    wait_in_queue(s, &place, HEARD + 4);
    snprintf(mine, sizeof mine, "k/%llx",
             (unsigned long long)etcd_lease_of(&sid));
    say_deletion(mine, HEARD + 5);
    AWAIT(atomic_load(&s->changed) == 3);
    etcd_watch_drop(s->store.watcher, &place);
    scene_close(s);
}

/* By the clock alone nothing is asked, as long as the watch stands, told
 * nothing, and the member is known to be one of a majority. */
static void watch_vouches(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    etcd_watcher *w = s->store.watcher;
    hf_place place;

    atomic_store(&s->store.heard, hfd_now());
    wait_in_queue(s, &place, HEARD);
    AWAIT(etcd_watch_vouches(w, &place));
    atomic_store(&s->store.heard, hfd_now() - HF_MS(60000));
    EXPECT(!etcd_watch_vouches(w, &place));
    atomic_store(&s->store.heard, hfd_now());
    EXPECT(etcd_watch_vouches(w, &place));
    say_deletion("k/7b", HEARD + 1);
    AWAIT(atomic_load(&s->changed) == 1);
    EXPECT(!etcd_watch_vouches(w, &place));
    wait_in_queue(s, &place, HEARD + 1);
    EXPECT(etcd_watch_vouches(w, &place));
    etcd_watch_drop(w, &place);
    EXPECT(!etcd_watch_vouches(w, &place));
    scene_close(s);
}

/* What it would have heard is gone: it looks, and the next begins anew. */
static void watch_was_compacted(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    hf_place place;

    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) == 1);
    say_deletion("k/8", HEARD + 2);
    say_compacted(HEARD + 9);
    AWAIT(atomic_load(&s->changed) == 1);
    wait_in_queue(s, &place, HEARD + 9);
    AWAIT(atomic_load(&watch.asked) == 2);
    EXPECT_EQ(watch.start[1], 0);
    etcd_watch_drop(s->store.watcher, &place);
    scene_close(s);
}

/* Answered before the watch stood: what went between the two is nobody's
 * event, so it looks. */
static void watch_came_late(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    hf_place place;

    wait_in_queue(s, &place, HEARD - 1);
    AWAIT(atomic_load(&s->changed) == 1);
    etcd_watch_drop(s->store.watcher, &place);
    scene_close(s);
}

static const test_case cases[] = {
    TEST_LIMIT(renewal_of_one_leader, 120),
    TEST_LIMIT(renewal_of_what_is_over, 120),
    TEST_LIMIT(one_is_late, 120),
    TEST_LIMIT(refused_join_frees_its_name, 120),
    TEST_LIMIT(watch_goes_on, 120),
    TEST_LIMIT(watch_vouches, 120),
    TEST_LIMIT(watch_was_compacted, 120),
    TEST_LIMIT(watch_came_late, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_told", cases,
                     sizeof cases / sizeof *cases);
}
