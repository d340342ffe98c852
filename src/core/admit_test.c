/* admit_test.c - the rule of admission on every small queue (G1, G3).
 *
 * Every queue of up to six seats over exclusive and shared, and over permits of
 * one to three places: nobody is granted beside an exclusive holder, nobody
 * overtakes, somebody always holds; and marking step by step, in every order
 * of leaving, agrees with judging by position. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <holdfast/driver.h>

enum { SEATS = 6 };

static void fill(hf_seat *seats, size_t n, unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        seats[i] = (hf_seat){.num = 10 * i + 1,
                             .mode = bits >> i & 1 ? HF_SHARED : HF_EXCLUSIVE};
}

static bool is_granted(const hf_seat *seats, size_t n, size_t me)
{
    size_t whom = SEATS;
    hf_verdict verdict = hfd_admit(seats, n, me, &whom);

    if (verdict == HF_WAITS)
        EXPECT(whom < me); /* waits for one ahead, never for itself */
    return verdict == HF_GRANTED;
}

static void by_position(void)
{
    hf_seat seats[SEATS];

    for (size_t n = 1; n <= SEATS; n++) {
        for (unsigned bits = 0; bits < 1u << n; bits++) {
            size_t shared = 0, alone = 0;

            fill(seats, n, bits);
            for (size_t i = 0; i < n; i++) {
                if (!is_granted(seats, n, i))
                    continue;
                shared += seats[i].mode == HF_SHARED;
                alone += seats[i].mode == HF_EXCLUSIVE;
            }
            EXPECT(alone <= 1 && (alone == 0 || shared == 0));
            EXPECT(alone + shared > 0);
            EXPECT(is_granted(seats, n, 0));
        }
    }
}

static void not_in_the_queue(void)
{
    hf_seat seats[1] = {{.num = 1}};
    size_t whom;

    EXPECT_EQ(hfd_admit(seats, 1, 1, &whom), HF_GONE);
    EXPECT_EQ(hfd_admit(NULL, 0, 0, &whom), HF_GONE);
}

/* Seats leave in the order given by `order` (a number in base n). */
static void walk(hf_seat *seats, size_t n, unsigned order)
{
    hfd_admit_due(seats, n);
    while (n > 0) {
        size_t out = order % n;

        for (size_t i = 0; i < n; i++)
            EXPECT_EQ(seats[i].granted, is_granted(seats, n, i));
        order /= (unsigned)n;
        memmove(seats + out, seats + out + 1, (n - out - 1) * sizeof(hf_seat));
        n--;
        hfd_admit_due(seats, n);
    }
}

static void marks_agree_with_position(void)
{
    hf_seat seats[SEATS];
    unsigned orders[] = {1, 1, 2, 6, 24, 120};

    for (size_t n = 1; n <= 5; n++) {
        for (unsigned bits = 0; bits < 1u << n; bits++) {
            for (unsigned order = 0; order < orders[n]; order++) {
                fill(seats, n, bits);
                walk(seats, n, order);
            }
        }
    }
    for (size_t n = 1; n <= 5; n++) {
        for (uint32_t places = 1; places <= 3; places++) {
            for (unsigned order = 0; order < orders[n]; order++) {
                for (size_t i = 0; i < n; i++)
                    seats[i] = (hf_seat){
                        .num = i, .mode = HF_PERMIT, .places = places};
                walk(seats, n, order);
            }
        }
    }
}

/* A waiter that was passed over stands ahead of the marked one: it must not be
 * granted beside it, whatever its position says. */
static void a_mark_behind_counts(void)
{
    hf_seat seats[3] = {{.num = 1}, {.num = 2, .granted = 1}, {.num = 3}};

    EXPECT_EQ(hfd_admit_due(seats, 3), 0);
    EXPECT(!seats[0].granted && !seats[2].granted);
}

static void kinds(void)
{
    hf_seat alone = {.mode = HF_EXCLUSIVE};
    hf_seat permit = {.mode = HF_PERMIT, .places = 3};

    EXPECT(hfd_same_kind(&alone, HF_SHARED, 0));
    EXPECT(!hfd_same_kind(&alone, HF_PERMIT, 3));
    EXPECT(!hfd_same_kind(&permit, HF_EXCLUSIVE, 0));
    EXPECT(hfd_same_kind(&permit, HF_PERMIT, 3));
    EXPECT(!hfd_same_kind(&permit, HF_PERMIT, 2));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(by_position),
        TEST(not_in_the_queue),
        TEST(marks_agree_with_position),
        TEST(a_mark_behind_counts),
        TEST(kinds),
    };

    return run_tests(argc, argv, "admit", cases, sizeof cases / sizeof *cases);
}
