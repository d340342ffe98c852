/* wake_test.c - a release is told, and by whom a waiter is woken.
 *
 * Five real servers.  A waiter is the driver without the core, so that nothing
 * but a message can be what tells it; and what the servers were told to publish
 * they count themselves.  An account without channels waits as well. */
#include "base/url.h"
#include "redlock_test.h"

#include "../redis/format_peer.h"

#define CHANNEL "holdfast:wake:k"

/* How often this server has published anything; words without a space. */
static long long told_by(server *s)
{
    return server_number(s,
                         "EVAL return(tonumber(string.match(redis.call('INFO',"
                         "'commandstats'),'_publish:calls=(%%d+)')or'0')) 0");
}

static long long told_by_all(five *f)
{
    long long least = told_by(f->s[0]);

    for (int i = 1; i < FIVE; i++) {
        long long calls = told_by(f->s[i]);

        least = calls < least ? calls : least;
    }
    return least;
}

static void publish(five *f, int from, int to)
{
    for (int i = from; i < to; i++)
        EXPECT_EQ(server_number(f->s[i], "PUBLISH " CHANNEL " x"), 1);
}

/* All that was published has been read when a later message was. */
static void read_all(ours *o)
{
    for (int i = 0; i < 20; i++) {
        struct pollfd at = {.fd = o->driver->fd(o->store), .events = POLLIN};

        if (poll(&at, 1, 20) > 0)
            o->driver->dispatch(o->store);
    }
}

static bool all_listen(ours *o, five *f)
{
    int count = 0;

    read_all(o);
    for (int i = 0; i < FIVE; i++)
        count +=
            server_number(f->s[i], "EVAL return(redis.call('PUBSUB','NUMSUB',"
                                   "'" CHANNEL "')[2]) 0") == 1;
    return count == FIVE;
}

static void a_majority_wakes(void)
{
    five f = five_begin("");
    ours *o = ours_open_url(f.url, 30000);
    hf_place place = ours_place("k");

    for (int i = 0; i < MAJORITY; i++)
        EXPECT_STR(server_ask(f.s[i], "SET k peer NX PX 60000"), "OK");
    EXPECT_CODE(ours_join(o, &place, false), 0);
    EXPECT_EQ(place.verdict, HF_WAITS);
    AWAIT(all_listen(o, &f));
    atomic_store(&o->changed_this, 0);
    publish(&f, 0, MAJORITY - 1);
    read_all(o);
    EXPECT_EQ(atomic_load(&o->changed_this), 0);
    publish(&f, MAJORITY - 1, MAJORITY);
    EXPECT(ours_woken(o, &o->changed_this, PATIENCE_MS));
    publish(&f, MAJORITY, FIVE);
    read_all(o);
    EXPECT_EQ(atomic_load(&o->changed_this), 1);
    /* The next release, which two of them have not heard of. */
    publish(&f, 0, MAJORITY);
    read_all(o);
    EXPECT_EQ(atomic_load(&o->changed_this), 2);
    EXPECT_EQ(ours_leave(o, &place), HF_WAITS);
    ours_close(o);
    five_end(&f);
}

static void releases_are_told_and_votes_taken_back_are_not(void)
{
    five f = five_begin("");
    hf_session *s = open_at(f.url, 30000);
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    hf_error err;

    for (int i = 0; i < MAJORITY; i++)
        EXPECT_STR(server_ask(f.s[i], "SET k peer NX PX 60000"), "OK");
    EXPECT_CODE(probe(s, "k", &err), HF_EBUSY);
    AWAIT(five_have(&f, "k", MAJORITY, FIVE) == 0);
    for (int i = 0; i < FIVE; i++)
        EXPECT_EQ(told_by(f.s[i]), 0);
    for (int i = 0; i < MAJORITY; i++)
        EXPECT_EQ(server_number(f.s[i], "DEL k"), 1);
    give(take(s, "k"));
    AWAIT(told_by_all(&f) == 1);
    /* By an operator, too. */
    take(s, "k");
    EXPECT_OK(hf_break(s, "k", &now, NULL, &err), err);
    AWAIT(told_by_all(&f) == 2);
    hf_close(s);
    five_end(&f);
}

/* An account without a right to any channel: its locks are what they were, and
 * who waits looks by the clock. */
static void without_channels(void)
{
    five f = five_begin("");
    char url[sizeof f.url + 16];
    hf_session *s, *rival;
    hf_hold *hold;
    waiter late;

    for (int i = 0; i < FIVE; i++)
        EXPECT_STR(server_ask(f.s[i], "ACL SETUSER app on >pw ~* +@all "
                                      "resetchannels"),
                   "OK");
    snprintf(url, sizeof url, "redlock://app:pw@%s",
             f.url + strlen("redlock://"));
    s = open_at(url, 30000);
    rival = open_at(url, 30000);
    hold = take(s, "k");
    EXPECT_CODE(hf_renew(hold, NULL), 0);
    waiter_start(&late, rival);
    for (int i = 0; i < FIVE; i++) /* it was refused everywhere */
        AWAIT(strstr(server_ask(f.s[i], "ACL LOG"), CHANNEL));
    EXPECT(!atomic_load(&late.done));
    give(hold);
    AWAIT(atomic_load(&late.done));
    waiter_end(&late);
    AWAIT(five_have(&f, "k", 0, FIVE) == 0);
    give(take(s, "k"));
    hf_close(s);
    hf_close(rival);
    five_end(&f);
}

static const test_case cases[] = {
    TEST(a_majority_wakes),
    TEST(without_channels),
    TEST(releases_are_told_and_votes_taken_back_are_not),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "wake", cases, sizeof cases / sizeof *cases);
}
