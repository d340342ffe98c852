/* native_test.c - operations of our own layout, one by one, without the core.
 *
 * What the core could only show by a rare accident: which instant an answer of
 * several round trips is dated by, and whose channel is listened to when an
 * operation of a session that is over comes late. */
#include "base/url.h"
#include "harness/expect.h"
#include "harness/proxy.h"
#include "harness/runner.h"
#include "harness/server.h"

#include "format_peer.h"

static int count_row(const hf_row *row, void *user)
{
    (void)row;
    ++*(int *)user;
    return 0;
}

/* The first page may show what was there before a doubt: the listing is as old
 * as that. */
static void a_listing_is_as_old_as_its_first_page(void)
{
    enum { LATE_MS = 500 };
    server *s = server_start(NULL);
    proxy *p = proxy_start(s->port);
    ours *o = ours_open_at(proxy_port(p), "ns=t", 30000);
    hf_place place = ours_place("k");
    int rows = 0;
    hf_op op = {
        .kind = HF_OP_LIST, .text = "", .emit_row = count_row, .user = &rows};

    ours_holds(o, &place);
    ours_run(o, &op); /* the scripts are known now */
    rows = 0;
    proxy_set(p, &(proxy_rule){.nth = 1, .act = PROXY_DELAY, .ms = LATE_MS});
    ours_run(o, &op);
    EXPECT_EQ(op.outcome, HF_APPLIED);
    EXPECT_EQ(rows, 1);
    EXPECT_EQ(proxy_struck(p), 1);
    EXPECT(op.sent > 0 && hfd_now() - op.sent >= HF_MS(LATE_MS));
    proxy_set(p, NULL);
    ours_leave(o, &place);
    ours_close(o);
    proxy_stop(p);
    server_stop(s);
}

static bool is_heard(server *s, const hf_id *sid)
{
    char digits[REDIS_ID + 1] = "";

    redis_id_text(digits, sid);
    return strstr(server_ask(s, "PUBSUB CHANNELS"), digits) != NULL;
}

/* An answer to the session before this one: the channel stays where it is. */
static void the_channel_is_the_last_sessions(void)
{
    server *s = server_start(NULL);
    ours *holder = ours_open(s, "ns=t"), *o = ours_open(s, "ns=t");
    hf_place held = ours_place("k"), waits = ours_place("k");
    hf_op attach = {.kind = HF_OP_ATTACH, .ttl = HF_MS(30000), .text = ""};
    hf_op renew = {.kind = HF_OP_RENEW, .ttl = HF_MS(30000)};
    hf_id old = o->sid, new;

    ours_holds(holder, &held);
    hfd_random(&new, sizeof new);
    o->sid = new;
    ours_run(o, &attach);
    EXPECT_CODE(attach.error.code, 0);
    ours_waits(o, &waits);
    EXPECT(is_heard(s, &new));
    o->sid = old;
    ours_run(o, &renew);
    EXPECT_CODE(renew.error.code, 0);
    o->sid = new;
    EXPECT_CODE(ours_look(o, &waits), 0);
    test_sleep_ms(200); /* it would be subscribed by now */
    EXPECT(is_heard(s, &new) && !is_heard(s, &old));
    ours_leave(holder, &held);
    ours_is_told(o, &waits);
    ours_leave(o, &waits);
    ours_close(o);
    ours_close(holder);
    server_stop(s);
}

static const test_case cases[] = {
    TEST(a_listing_is_as_old_as_its_first_page),
    TEST(the_channel_is_the_last_sessions),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "native", cases, sizeof cases / sizeof *cases);
}
