/* letter.c - telling a waiter its grant without the database.
 *
 * Who grants writes, after the COMMIT, a letter into the slot of the waiter:
 * which entry, which token, and until when its session surely lives.  The woken
 * one finds it and holds, without a read of the tables.
 *
 * Why that is safe: a letter says what was committed, so it says what a read of
 * the tables a moment ago would have said.  Entry ids are never used twice, so
 * a letter of former days fits nobody.  Up to `until` nobody can have declared
 * the session dead by its lease, and being able to read proves that it has not
 * died otherwise; later than that, or once anything of this session was broken
 * by an operator, the tables are asked.  Several may write one letter at a
 * time, or die while they do: the check over all of it, with the session's id,
 * tells a torn one, and the tables are asked.
 *
 * "Coming": another core takes as long to wake as a transaction takes.  So the
 * successor's futex is woken as soon as it is known, with its word unchanged:
 * in the transaction, or before, if it has named itself as the heir of the
 * entry that leaves.  Who wakes like that watches the word for SPIN and sleeps
 * again.  It is no answer: only a word that changed makes it look, and only a
 * letter or a row makes it hold; a wrong heir costs a moment.  Where both run
 * on one core this would only be in the way; each waiter notes its core for
 * that. */
#include "store.h"

#include <sched.h>
#include <string.h>

#define SPIN 50000 /* ns */
#define PAUSES 32  /* between two looks at the clock */
#define ROUNDS 200 /* for a clock that stands still */

static uint64_t stir(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

static uint64_t check_of(const uint64_t rid[2], const hf_id *sid,
                         uint64_t token, uint64_t until)
{
    uint64_t half[2];

    memcpy(half, sid->bytes, sizeof half);
    return stir(
        stir(stir(stir(stir(stir(1, rid[0]), rid[1]), half[0]), half[1]),
             token),
        until);
}

static sq_letter *letter_of(const hf_store *s, uint32_t slot, const hf_id *rid)
{
    return &s->map->slot[slot % SQ_SLOTS].letter[rid->bytes[1] % SQ_LETTERS];
}

void hf__sq_letter_write(hf_store *s, const sq_wake *wake)
{
    sq_letter *l = letter_of(s, wake->word / SQ_WORDS, &wake->rid);
    uint64_t rid[2];

    memcpy(rid, wake->rid.bytes, sizeof rid);
    atomic_store(&l->check, 0);
    atomic_store(&l->rid[0], rid[0]);
    atomic_store(&l->rid[1], rid[1]);
    atomic_store(&l->token, wake->token);
    atomic_store(&l->until, (uint64_t)wake->until);
    atomic_store(&l->check,
                 check_of(rid, &wake->sid, wake->token, (uint64_t)wake->until));
}

bool hf__sq_letter_read(const hf_store *s, const hf_id *sid, sq_wake *io)
{
    sq_letter *l = letter_of(s, s->slot, &io->rid);
    uint64_t rid[2], until, check = atomic_load(&l->check);

    if (s->network || atomic_load(&s->had_news))
        return false;
    memcpy(rid, io->rid.bytes, sizeof rid);
    if (atomic_load(&l->rid[0]) != rid[0] || atomic_load(&l->rid[1]) != rid[1])
        return false;
    io->token = atomic_load(&l->token);
    until = atomic_load(&l->until);
    io->until = (hf_nsec)until;
    return io->token != 0 && check == check_of(rid, sid, io->token, until);
}

static _Atomic uint8_t *cpu_of(hf_store *s, uint32_t word)
{
    return &s->map->slot[word / SQ_WORDS % SQ_SLOTS].cpu[word % SQ_WORDS];
}

/* 1 and up; 0: nobody knows. */
static uint8_t this_cpu(void)
{
    int cpu = sched_getcpu();

    return (uint8_t)(cpu < 0 ? 0 : 1 + cpu % 255);
}

void hf__sq_letter_coming(hf_store *s, uint32_t word)
{
    uint8_t cpu;

    if (s->network || word % SQ_WORDS == 0)
        return;
    cpu = atomic_load(cpu_of(s, word));
    if (cpu != 0 && cpu != this_cpu())
        hf__sq_futex_wake_one(hf__sq_word(s, word));
}

static _Atomic uint64_t *heir_of(hf_store *s, uint32_t slot, const hf_id *rid)
{
    return &s->map->slot[slot % SQ_SLOTS].heir[rid->bytes[2] % SQ_HEIRS];
}

static uint64_t half_of(const hf_id *rid)
{
    uint32_t half;

    memcpy(&half, rid->bytes + 4, sizeof half);
    return (uint64_t)half << 32;
}

void hf__sq_heir_write(hf_store *s, const sq_heir *heir, uint32_t word)
{
    if (heir->known && !s->network && heir->slot >= 0 &&
        heir->slot != (int64_t)s->slot)
        atomic_store(heir_of(s, (uint32_t)heir->slot, &heir->rid),
                     half_of(&heir->rid) | (word + 1));
}

uint32_t hf__sq_heir_wake(hf_store *s, const hf_place *place)
{
    uint64_t heir;
    uint32_t word;

    if (s->network || place->mode != HF_EXCLUSIVE)
        return 0;
    heir = atomic_load(heir_of(s, s->slot, &place->rid));
    word = (uint32_t)heir;
    if (word == 0 || (heir ^ half_of(&place->rid)) >> 32 != 0)
        return 0;
    hf__sq_letter_coming(s, word - 1);
    return word;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void watch_word(_Atomic uint32_t *at, uint32_t seen)
{
    hf_nsec end = hfd_now() + SPIN;

    for (int i = 0; i < ROUNDS && hfd_now() < end; i++)
        for (int k = 0; k < PAUSES; k++) {
            if (atomic_load(at) != seen)
                return;
            pause_cpu();
        }
}

/* Sleep until the word is not `seen` any more. */
void hf__sq_letter_await(hf_store *s, uint32_t word, uint32_t seen,
                         hf_nsec until)
{
    _Atomic uint32_t *at = hf__sq_word(s, word);
    hf_nsec left;

    atomic_store(cpu_of(s, word), this_cpu());
    /* The kernel measures this sleep by a clock that stands still over a
     * suspend; a second at a time keeps the difference small. */
    while (atomic_load(at) == seen && (left = until - hfd_now()) > 0)
        if (hf__sq_futex_sleep(at, seen,
                               left < HF_MS(1000) ? left : HF_MS(1000)))
            watch_word(at, seen);
}
