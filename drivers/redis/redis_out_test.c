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

static const test_case cases[] = {
    TEST(scripts_forgotten), TEST(listeners_thrown_out),
    TEST(clients_thrown_out), TEST(nothing_is_left)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "redis_out", cases,
                     sizeof cases / sizeof *cases);
}
