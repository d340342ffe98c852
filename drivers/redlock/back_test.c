/* back_test.c - a vote that is taken back, and comes to be late.
 *
 * Five real servers and a proxy before one of them, which keeps a take-back to
 * itself while the connection is cut: a middlebox may deliver it at any time
 * then.  What that server says is ours must not be counted, or two could have
 * the lock; and not for ever, or nobody could. */
#include "base/url.h"
#include "redlock_test.h"

#include "../redis/format_peer.h"

enum { HELD_UP = 3, LEASE_MS = 4000 };

static void read_some(ours *o)
{
    struct pollfd at = {.fd = o->driver->fd(o->store), .events = POLLIN};

    if (poll(&at, 1, 20) > 0)
        o->driver->dispatch(o->store);
}

static bool connections_are(ours *o, proxy *p, unsigned n)
{
    read_some(o);
    return proxy_connections(p) == n;
}

/* Two of five vote for us, which is taken back: at one of them too late. */
static void split_and_hold_up(five *f, proxy *p, ours *o, hf_place *place)
{
    for (int i = 0; i < HELD_UP; i++)
        EXPECT_STR(server_ask(f->s[i], "SET k peer NX PX 60000"), "OK");
    proxy_set(p, &(proxy_rule){.command = "EVALSHA",
                               .word = "U",
                               .nth = 1,
                               .act = PROXY_SWALLOW});
    EXPECT_CODE(ours_join(o, place, false), 0);
    EXPECT_EQ(place->verdict, HF_WAITS);
    AWAIT(connections_are(o, p, 2)); /* one is for the channels */
    AWAIT(five_have(f, "k", HELD_UP + 1, FIVE) == 0);
    EXPECT_EQ(proxy_struck(p), 1);
    AWAIT(connections_are(o, p, 1)); /* its time is over: it was cut */
    proxy_set(p, NULL);
    /* Now the one that is held up would be the third voice. */
    EXPECT_STR(server_ask(f->s[FIVE - 1], "SET k peer NX PX 60000"), "OK");
    EXPECT_EQ(server_number(f->s[0], "DEL k"), 1);
    EXPECT_EQ(server_number(f->s[1], "DEL k"), 1);
}

static bool is_granted(ours *o, hf_place *place)
{
    read_some(o);
    EXPECT_CODE(ours_look(o, place), 0);
    return place->verdict == HF_GRANTED;
}

static void held_up_over_a_reconnection(void)
{
    five f = five_begin("");
    proxy *p = proxy_start(f.s[HELD_UP]->port);
    int ports[FIVE];
    hf_place place = ours_place("k");
    hf_nsec cut;
    ours *o;

    for (int i = 0; i < FIVE; i++)
        ports[i] = i == HELD_UP ? proxy_port(p) : f.s[i]->port;
    five_url(&f, ports, "");
    o = ours_open_url(f.url, LEASE_MS);
    split_and_hold_up(&f, p, o, &place);
    cut = hfd_now();
    EXPECT(!is_granted(o, &place));
    /* What was not counted is taken back again. */
    AWAIT(five_have(&f, "k", HELD_UP, HELD_UP + 1) == 0);
    AWAIT(is_granted(o, &place));
    EXPECT(hfd_now() - cut > HF_MS(LEASE_MS) / 2);
    EXPECT_EQ(five_have(&f, "k", HELD_UP, HELD_UP + 1), 1);
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    ours_close(o);
    proxy_stop(p);
    five_end(&f);
}

/* One that was answered is over: the next vote of that server counts. */
static void answered_in_time(void)
{
    five f = five_begin("");
    ours *o = ours_open_url(f.url, 30000);
    hf_place place = ours_place("k");

    for (int i = 0; i < HELD_UP; i++)
        EXPECT_STR(server_ask(f.s[i], "SET k peer NX PX 60000"), "OK");
    EXPECT_CODE(ours_join(o, &place, false), 0);
    EXPECT_EQ(place.verdict, HF_WAITS);
    EXPECT_EQ(server_number(f.s[0], "DEL k"), 1);
    EXPECT(is_granted(o, &place));
    EXPECT_EQ(ours_leave(o, &place), HF_GRANTED);
    ours_close(o);
    five_end(&f);
}

static const test_case cases[] = {
    TEST(held_up_over_a_reconnection),
    TEST(answered_in_time),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "back", cases, sizeof cases / sizeof *cases);
}
