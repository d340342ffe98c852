/* admit.c - any queue, any history of leaving, against the rule said twice.
 *
 * The bytes are a program: seats join at the end, seats leave, and after each
 * step the rule is asked.  What must hold is said here in its own words: never
 * an exclusive holder beside another, never more holders than places, nobody
 * overtaken, nobody who could hold left waiting, and who waits waits for one
 * who is ahead and in its way.  With and without the store's marks. */
#include "fuzz.h"

#include <holdfast/driver.h>

enum { SEATS_MAX = 24 };

typedef struct queue {
    hf_seat seats[SEATS_MAX];
    size_t count;
    uint64_t last;
} queue;

/* Two seats that may hold at the same time, places aside. */
static int go_together(const hf_seat *a, const hf_seat *b)
{
    return (a->mode == HF_SHARED && b->mode == HF_SHARED) ||
           (a->mode == HF_PERMIT && b->mode == HF_PERMIT);
}

static size_t count_held(const queue *q)
{
    size_t held = 0;

    for (size_t i = 0; i < q->count; i++)
        held += q->seats[i].granted;
    return held;
}

/* Could seat i be granted beside those that hold now? */
static int fits(const queue *q, size_t i)
{
    const hf_seat *me = &q->seats[i];

    for (size_t k = 0; k < q->count; k++)
        if (k != i && q->seats[k].granted && !go_together(&q->seats[k], me))
            return 0;
    return me->mode != HF_PERMIT || count_held(q) < me->places;
}

static void check_marks(queue *q)
{
    queue before = *q;
    size_t due = hfd_admit_due(q->seats, q->count);
    int waits = 0;

    PROMISE(count_held(q) == count_held(&before) + due);
    for (size_t i = 0; i < q->count; i++) {
        hf_seat *seat = &q->seats[i];

        PROMISE(seat->num == before.seats[i].num);
        PROMISE(seat->granted >= before.seats[i].granted);
        if (!seat->granted) {
            waits = 1;
            continue;
        }
        PROMISE(before.seats[i].granted || !waits);
        if (seat->mode == HF_PERMIT)
            PROMISE(count_held(q) <= seat->places);
        for (size_t k = 0; k < i; k++)
            PROMISE(!q->seats[k].granted || go_together(&q->seats[k], seat));
    }
    for (size_t i = 0; i < q->count; i++) {
        if (!q->seats[i].granted) {
            PROMISE(!fits(q, i)); /* the first who waits must wait */
            break;
        }
    }
    PROMISE(hfd_admit_due(q->seats, q->count) == 0);
}

/* Without marks position alone decides, so it is the marks of a queue that
 * was granted from the front: compare with hfd_admit_due from scratch. */
static void check_judge(const queue *q)
{
    queue fresh = *q;
    size_t ahead = 0;

    for (size_t i = 0; i < fresh.count; i++)
        fresh.seats[i].granted = 0;
    hfd_admit_due(fresh.seats, fresh.count);
    for (size_t i = 0; i < q->count; i++) {
        hf_seat seats[SEATS_MAX];
        hf_verdict verdict;

        memcpy(seats, q->seats, sizeof seats);
        for (size_t k = 0; k < q->count; k++)
            seats[k].granted = 0;
        ahead = SEATS_MAX;
        verdict = hfd_admit(seats, q->count, i, &ahead);
        PROMISE(verdict == HF_GRANTED || verdict == HF_WAITS);
        PROMISE((verdict == HF_GRANTED) == fresh.seats[i].granted);
        if (verdict == HF_WAITS) {
            PROMISE(ahead < i);
            if (q->seats[i].mode == HF_SHARED)
                PROMISE(q->seats[ahead].mode != HF_SHARED);
        }
    }
    PROMISE(hfd_admit(q->seats, q->count, q->count, &ahead) == HF_GONE);
}

static void join_queue(queue *q, uint8_t what)
{
    hf_seat seat = {.num = ++q->last, .mode = what % 3};

    if (q->count == SEATS_MAX)
        return;
    if (seat.mode == HF_PERMIT)
        seat.places = 1 + what / 3 % 4;
    for (size_t i = 0; i < q->count; i++)
        if (!hfd_same_kind(&q->seats[i], (hf_mode)seat.mode, seat.places))
            return; /* HF_EKIND: it does not get in */
    q->seats[q->count++] = seat;
}

static void leave_queue(queue *q, uint8_t who)
{
    if (q->count == 0)
        return;
    who = (uint8_t)(who % q->count);
    memmove(&q->seats[who], &q->seats[who + 1],
            (q->count - who - 1) * sizeof *q->seats);
    q->count--;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + (size < 400 ? size : 400)};
    queue q = {.count = 0};

    while (in.at < in.end) {
        uint8_t step = take_byte(&in);

        if (step < 160)
            join_queue(&q, step);
        else
            leave_queue(&q, (uint8_t)(step - 160));
        check_marks(&q);
        check_judge(&q);
    }
    return 0;
}
