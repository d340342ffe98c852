/* admit.c - who may hold a resource.
 *
 * Answers one question: given a snapshot of a queue and my seat in it, am I
 * granted, and if not, whose leaving do I wait for?  Knows nothing of stores,
 * time or threads, so admit_test.c tries every small queue.
 *
 * Keeps G1 (one exclusive holder) by the law in driver.h: seats ahead of me
 * can only leave, so an old snapshot errs towards waiting.
 *
 * Where the store marks the granted seats, the marks alone say who holds: a
 * waiter that was passed over keeps its place, so a marked seat may stand
 * behind an unmarked one, and position proves nothing.  hfd_admit_due is the
 * same rule read forwards: which unmarked seats may be marked now. */
#include <holdfast/driver.h>

bool hfd_same_kind(const hf_seat *seat, hf_mode mode, uint32_t places)
{
    if (seat->mode == HF_PERMIT || mode == HF_PERMIT)
        return seat->mode == (uint8_t)mode && seat->places == places;
    return true;
}

hf_verdict hfd_admit(const hf_seat *seats, size_t n, size_t me, size_t *ret_for)
{
    if (me >= n)
        return HF_GONE;
    switch ((hf_mode)seats[me].mode) {
    case HF_SHARED:
        for (size_t i = me; i-- > 0;) {
            if (seats[i].mode != HF_SHARED) {
                *ret_for = i;
                return HF_WAITS;
            }
        }
        return HF_GRANTED;
    case HF_PERMIT:
        if (me < seats[me].places)
            return HF_GRANTED;
        *ret_for = 0;
        return HF_WAITS;
    case HF_EXCLUSIVE:
    default:
        if (me == 0)
            return HF_GRANTED;
        *ret_for = me - 1;
        return HF_WAITS;
    }
}

size_t hfd_admit_due(hf_seat *seats, size_t n)
{
    size_t held = 0, held_alone = 0, due = 0;

    for (size_t i = 0; i < n; i++) {
        held += seats[i].granted;
        held_alone += seats[i].granted && seats[i].mode == HF_EXCLUSIVE;
    }
    for (size_t i = 0; i < n; i++) {
        hf_seat *seat = &seats[i];
        bool fits;

        if (seat->granted)
            continue;
        if (seat->mode == HF_SHARED)
            fits = held_alone == 0;
        else
            fits = held < (seat->mode == HF_PERMIT ? seat->places : 1);
        if (!fits)
            break; /* nobody overtakes the first who must wait */
        seat->granted = 1;
        held++;
        held_alone += seat->mode == HF_EXCLUSIVE;
        due++;
    }
    return due;
}
