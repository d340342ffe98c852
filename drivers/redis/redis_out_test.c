/* redis_out_test.c - thrown out by a healthy server, and what stays behind.
 *
 * An operator, or a proxy with a timeout, ends connections and empties the
 * cache of scripts.  None of it is a fault: locks are taken, held, handed over
 * and given back as if nothing had happened, and in the end nothing is left in
 * the server but the counter. */
#include "redis_fault_test.h"

static void scripts_forgotten(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    waiter waits;

    give(take(s, "k"));
    EXPECT_STR(server_ask(w.s, "SCRIPT FLUSH"), "OK");
    hf_hold *hold = take(s, "k");
    EXPECT_STR(server_ask(w.s, "SCRIPT FLUSH"), "OK");
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    waiter_start(&waits, rival);
    AWAIT(count_entries(s) == 2);
    EXPECT_STR(server_ask(w.s, "SCRIPT FLUSH"), "OK");
    give(hold);
    waiter_end(&waits);
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

/* The push connection goes, and comes back; who waits is granted. */
static void listeners_thrown_out(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);

    for (int i = 0; i < 3; i++) {
        hf_hold *hold = take(s, "k");
        uint64_t token = hf_hold_token(hold);
        waiter waits;

        waiter_start(&waits, rival);
        AWAIT(count_entries(s) == 2);
        AWAIT(server_number(w.s, "CLIENT KILL TYPE pubsub") == 1);
        if (i > 0)
            test_sleep_ms(i * 50); /* before, while and after it is back */
        give(hold);
        waiter_end(&waits);
        EXPECT(waits.token > token);
    }
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

static void clients_thrown_out(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0);
    hf_error err;

    give(take(s, "k"));
    for (int i = 0; i < 5; i++) {
        EXPECT(server_number(w.s, "CLIENT KILL TYPE normal SKIPME yes") > 0);
        hf_hold *hold = take(s, "k");
        EXPECT(server_number(w.s, "CLIENT KILL TYPE normal SKIPME yes") > 0);
        int code = hf_renew(hold, &err); /* it was sent, or was it? */
        EXPECT(code == 0 || code == HF_EUNKNOWN);
        EXPECT_OK(hf_renew(hold, &err), err);
        EXPECT(server_number(w.s, "CLIENT KILL TYPE normal SKIPME yes") > 0);
        give(hold);
    }
    hf_close(s);
    expect_clean(&w, 1);
}

/* All kinds on many keys, by two sessions with waiters: no trace is left. */
static void nothing_is_left(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    hf_request *request;

    for (int i = 0; i < 300; i++) {
        hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = (hf_mode)(i % 3),
                               .places = i % 3 == HF_PERMIT ? 2 : 0,
                               .value = "v", .value_len = 1};
        hf_hold *hold = NULL;
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        EXPECT_CODE(hf_lock(s, key, &opt, &hold, NULL), 0);
        opt.wait_ms = HF_FOREVER;
        if (i % 2)
            EXPECT_CODE(hf_lock_start(rival, key, &opt, NULL, &request, NULL),
                        0);
        if (i % 5)
            EXPECT_CODE(hf_release(hold, NULL), 0);
    }
    hf_close(s);
    hf_close(rival);
    expect_clean(&w, 1);
}

typedef struct queue {
    uint64_t numbers[4]; /* of those who wait, in order */
    int waiting;
} queue;

static int note_waiting(const hf_entry_info *entry, void *user)
{
    queue *q = user;

    if (entry->token == 0 && q->waiting < 4)
        q->numbers[q->waiting++] = entry->number;
    return 0;
}

static queue list_waiting(hf_session *s)
{
    queue q = {0};
    hf_error err;

    EXPECT_OK(hf_list(s, NULL, note_waiting, &q, &err), err);
    return q;
}

/* Who is due and does not listen is passed over, and keeps the place: whoever
 * comes later stands behind it. */
static void the_deaf_keep_their_place(void)
{
    world w = world_begin(NULL, "ns=t");
    hf_session *s = open_at(w.through, 0), *second = open_at(w.direct, 0),
               *third = open_at(w.direct, 0), *rival = open_at(w.direct, 0);
    hf_hold *hold = take(rival, "k");
    waiter deaf, next, last;
    queue before, after;

    proxy_set(w.p, &(proxy_rule){.command = "SUBSCRIBE", .act = PROXY_SWALLOW});
    waiter_start(&deaf, s);
    AWAIT(list_waiting(rival).waiting == 1);
    before = list_waiting(rival);
    waiter_start(&next, second);
    AWAIT(list_waiting(rival).waiting == 2 &&
          server_number(w.s, "EVAL return(#redis.call('pubsub','channels')) "
                             "0") == 1);
    give(hold);
    AWAIT(atomic_load(&next.done));
    waiter_start(&last, third);
    AWAIT(list_waiting(rival).waiting == 2);
    after = list_waiting(rival);
    EXPECT(after.numbers[0] == before.numbers[0]);
    EXPECT(after.numbers[1] > after.numbers[0]);
    proxy_set(w.p, NULL);
    waiter_end(&next);
    atomic_store(&last.let_go, true);
    waiter_end(&deaf);
    waiter_end(&last);
    hf_close(s);
    hf_close(second);
    hf_close(third);
    hf_close(rival);
    expect_clean(&w, 1);
}

static const test_case cases[] = {
    TEST(scripts_forgotten), TEST(listeners_thrown_out),
    TEST(clients_thrown_out), TEST(the_deaf_keep_their_place),
    TEST(nothing_is_left)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redis_out", cases,
                     sizeof cases / sizeof *cases);
}
