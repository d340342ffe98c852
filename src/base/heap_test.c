/* heap_test.c - timers fire in order, wherever they were moved to or taken
 * from: a few thousand random steps against a plain array. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "base/heap.h"

enum { TIMERS = 60 };

static unsigned seed = 12345;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static hf_nsec least(const hf__timer *timers, const bool *set)
{
    hf_nsec due = HF_NEVER;

    for (int i = 0; i < TIMERS; i++) {
        if (set[i] && timers[i].due < due)
            due = timers[i].due;
    }
    return due;
}

static void random_steps(void)
{
    hf__heap heap = {0};
    hf__timer timers[TIMERS] = {0};
    bool set[TIMERS] = {false};

    EXPECT_EQ(hf__heap_reserve(&heap, TIMERS), 0);
    for (int step = 0; step < 20000; step++) {
        unsigned i = draw(TIMERS);

        if (draw(3)) {
            hf__heap_set(&heap, &timers[i], draw(1000));
            set[i] = true;
        } else if (draw(2)) {
            hf__heap_remove(&heap, &timers[i]);
            set[i] = false;
        } else {
            hf__timer *due = hf__heap_pop_due(&heap, draw(1000));

            if (due) {
                EXPECT(set[due - timers]);
                EXPECT_EQ(due->due, least(timers, set));
                set[due - timers] = false;
            }
        }
        EXPECT_EQ(hf__heap_next(&heap), least(timers, set));
    }
    hf__heap_done(&heap);
}

static void empty(void)
{
    hf__heap heap = {0};
    hf__timer timer = {0};

    EXPECT_EQ(hf__heap_next(&heap), HF_NEVER);
    EXPECT(hf__heap_pop_due(&heap, HF_NEVER) == NULL);
    hf__heap_remove(&heap, &timer);
    EXPECT_EQ(timer.index, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {TEST(random_steps), TEST(empty)};

    return run_tests(argc, argv, "heap", cases, sizeof cases / sizeof *cases);
}
