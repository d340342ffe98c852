/* sqlite_gate_test.c - what the side file tells: whose turn it is, what came.
 *
 * On a map of its own, without a database: turns that are given up hold nobody
 * up, a turn whose owner died is passed over, and a letter is believed only by
 * its reader, whole, and while it is good. */
#include <string.h>
#include <sys/mman.h>

#include "store.h"

#include "harness/expect.h"
#include "harness/runner.h"

enum { CROWD = 8 };

static sq_map *new_map(void)
{
    sq_map *map = mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    EXPECT(map != MAP_FAILED);
    return map;
}

static hf_store store_on(sq_map *map)
{
    return (hf_store){.map = map, .patience = HF_MS(60000)};
}

static void late_draws_nothing(void)
{
    hf_store s = store_on(new_map());
    uint32_t ticket;

    EXPECT(!hf__sq_gate_enter(&s, hfd_now(), &ticket));
    EXPECT_EQ(s.map->gate_next, 0);
    EXPECT(hf__sq_gate_enter(&s, hfd_now() + HF_MS(60000), &ticket));
    hf__sq_gate_leave(&s, ticket);
}

/* Comes to a gate that is shut, and soon gives up. */
static void *wait_a_moment(void *arg)
{
    hf_store s = store_on(arg);
    uint32_t ticket;

    if (hf__sq_gate_enter(&s, hfd_now() + HF_MS(2), &ticket))
        hf__sq_gate_leave(&s, ticket); /* this machine is very slow */
    return NULL;
}

static void given_up_is_skipped(void)
{
    hf_store s = store_on(new_map());
    pthread_t crowd[CROWD];
    uint32_t ticket;

    EXPECT(hf__sq_gate_enter(&s, hfd_now() + HF_MS(60000), &ticket));
    for (int i = 0; i < CROWD; i++)
        EXPECT_EQ(pthread_create(&crowd[i], NULL, wait_a_moment, s.map), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(crowd[i], NULL);
    EXPECT_EQ(s.map->gate_next, 1 + CROWD);
    hf__sq_gate_leave(&s, ticket);
    /* Nobody is left to be waited for. */
    EXPECT_EQ(s.map->gate_serving, s.map->gate_next);
}

static void dead_is_passed_over(void)
{
    hf_store s = store_on(new_map());
    uint32_t ticket;

    atomic_fetch_add(&s.map->gate_next, 1); /* drawn by one who died */
    EXPECT(hf__sq_gate_enter(&s, hfd_now() + HF_MS(60000), &ticket));
    EXPECT_EQ(ticket, 1);
    hf__sq_gate_leave(&s, ticket);
    EXPECT_EQ(s.map->gate_serving, s.map->gate_next);
}

static void letters_are_checked(void)
{
    hf_store s = store_on(new_map());
    sq_wake wake = {.word = 7 * SQ_WORDS + 3, .token = 42, .until = 1000};
    sq_wake got = {.news = false};
    sq_letter *l;
    hf_id other;

    memset(wake.rid.bytes, 0x11, sizeof wake.rid.bytes);
    memset(wake.sid.bytes, 0x22, sizeof wake.sid.bytes);
    got.rid = other = wake.rid;
    other.bytes[15] = 0;
    s.slot = 7;
    EXPECT(!hf__sq_letter_read(&s, &wake.sid, &got));
    hf__sq_letter_write(&s, &wake);
    EXPECT(hf__sq_letter_read(&s, &wake.sid, &got));
    EXPECT_EQ(got.token, 42);
    EXPECT_EQ(got.until, 1000);
    EXPECT(!hf__sq_letter_read(&s, &wake.rid, &got)); /* of another session */
    got.rid = other;
    EXPECT(!hf__sq_letter_read(&s, &wake.sid, &got)); /* for another entry */
    got.rid = wake.rid;
    l = &s.map->slot[7].letter[wake.rid.bytes[1] % SQ_LETTERS];
    atomic_store(&l->token, 43); /* two wrote at a time */
    EXPECT(!hf__sq_letter_read(&s, &wake.sid, &got));
    hf__sq_letter_write(&s, &wake);
    atomic_store(&s.had_news, true);
    EXPECT(!hf__sq_letter_read(&s, &wake.sid, &got));
}

static void heirs_are_named(void)
{
    hf_store s = store_on(new_map());
    hf_place place = {.mode = HF_EXCLUSIVE};
    sq_heir ahead = {.slot = 5, .known = true};

    memset(ahead.rid.bytes, 0x33, sizeof ahead.rid.bytes);
    hf__sq_heir_write(&s, &ahead, 9 * SQ_WORDS + 4);
    s.slot = 5;
    EXPECT_EQ(hf__sq_heir_wake(&s, &place), 0);
    place.rid = ahead.rid;
    EXPECT_EQ(hf__sq_heir_wake(&s, &place), 9 * SQ_WORDS + 5);
    place.mode = HF_SHARED;
    EXPECT_EQ(hf__sq_heir_wake(&s, &place), 0);
}

static const test_case cases[] = {
    TEST(late_draws_nothing),  TEST(given_up_is_skipped),
    TEST(dead_is_passed_over), TEST(letters_are_checked),
    TEST(heirs_are_named),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sqlite_gate", cases,
                     sizeof cases / sizeof cases[0]);
}
