/* record.h - one line of a campaign's history.
 *
 * Every process of a campaign, and the conductor, appends records to a file of
 * its own: 64 bytes each, in one write(2) before the act that they announce or
 * right after the answer that they tell, so that a process that is killed has
 * said all that it knew.  Instants are CLOCK_BOOTTIME in nanoseconds, which all
 * processes of one machine share, so that intervals can be compared exactly.
 *
 * A file may end in the middle of a record (its writer was killed) and may be
 * damaged; the sum tells. */
#ifndef HF_CAMPAIGN_RECORD_H
#define HF_CAMPAIGN_RECORD_H

#include <stdint.h>
#include <stddef.h>

enum {
    CAMP_KEYS = 16,
    CAMP_ODD = 8,     /* this key and those behind it have odd names */
    CAMP_PERMITS = 7, /* this key has places, for permits alone */
    CAMP_PLACES = 2,
    CAMP_LIVES = 4096
};

/* X(name, text); the conductor (diary.py) counts in the same order. */
#define CAMP_MAP(X)                                                            \
    X(NOTHING, "nothing")                                                      \
    X(CONFIG, "the campaign begins")                                           \
    X(BEGIN, "begins")                                                         \
    X(OPENED, "opened its session")                                            \
    X(ASK, "asks")                                                             \
    X(GRANT, "is told: granted")                                               \
    X(REFUSED, "is told: not granted")                                         \
    X(CHECK, "checks")                                                         \
    X(CHANGE, "is told of a change")                                           \
    X(ACT, "writes to the resource")                                           \
    X(RENEW, "renews")                                                         \
    X(RELEASE, "gives it back")                                                \
    X(RELEASED, "is answered to its release")                                  \
    X(SEEN, "sees a waiting entry")                                            \
    X(FORKED, "asks in a forked child")                                        \
    X(STALL, "stood still")                                                    \
    X(END, "ends")                                                             \
    X(KILL, "NEMESIS kills it")                                                \
    X(STOP, "NEMESIS stops it")                                                \
    X(CONTINUE, "NEMESIS lets it go on")                                       \
    X(FAULT, "NEMESIS begins fault")                                           \
    X(HEALED, "NEMESIS ends fault")                                            \
    X(CALM, "all is healed, and nobody strikes for a while")                   \
    X(FINISH, "everybody is asked to end")

#define CAMP_ENUM(name, text) CAMP_##name,
typedef enum camp_kind { CAMP_MAP(CAMP_ENUM) CAMP_KINDS } camp_kind;

enum {                        /* flags of a request */
       CAMP_TRY = 1 << 0,     /* does not wait */
       CAMP_AGAIN = 1 << 1,   /* its owner holds it already, by `number` */
       CAMP_CANCELS = 1 << 2, /* may be cancelled */
       CAMP_ENDS = 1 << 3,    /* the hold ends by itself after `token` ns */
       CAMP_LEAVES = 1 << 4   /* not given back: its thread ends */
};

enum {                     /* CONFIG: what the store promises, in `number` */
       CAMP_FIFO = 1 << 0, /* first come, first served, always */
       CAMP_FIFO_CALM = 1 << 1, /* the same while there are no faults */
       CAMP_TOKENS = 1 << 2,
       CAMP_PUSH = 1 << 3, /* who waits is woken */
       CAMP_VOTES = 1 << 4 /* several servers: what is left of a request goes
                              a moment after its answer */
};

typedef struct camp_record {
    int64_t at;      /* written then: after the answer */
    int64_t called;  /* before the call; of what is no answer, the same */
    int64_t until;   /* CHECK: end of the belief; ASK: of the wait, INT64_MAX
                        for ever; CONFIG: the lease in ns */
    uint64_t token;  /* GRANT, ACT, SEEN; BEGIN, END: descriptors at first;
                        CONFIG: a bit for each fault that excuses two holders;
                        ASK: see CAMP_ENDS */
    uint64_t number; /* SEEN: the place; ACT: the largest token so far;
                        CHANGE: the hf_state; BEGIN: the pid; END: descriptors
                        now; ASK: the request above, if it takes it again;
                        HEALED: 1 is that nobody was struck */
    uint32_t life;   /* the process; 0: the conductor */
    uint32_t task;   /* the request of that process, and its hold */
    int32_t code;    /* an HF_E...; ACT: 1 is refused; END: threads left;
                        FAULT: its number */
    uint8_t kind, key, mode, flags;
    uint32_t spare;
    uint32_t sum; /* of all bytes before it */
} camp_record;
_Static_assert(sizeof(camp_record) == 64, "a record has 64 bytes");

/* FNV-1a, as diary.py has it. */
static inline uint32_t camp_sum(const camp_record *r)
{
    const unsigned char *p = (const unsigned char *)r;
    uint32_t sum = 2166136261U;

    for (size_t i = 0; i < offsetof(camp_record, sum); i++)
        sum = (sum ^ p[i]) * 16777619U;
    return sum;
}

/* What all processes of a campaign share: a file that they map.  `largest` is
 * the fenced resource, one number per key; the rest tells the conductor whom
 * to strike. */
typedef struct camp_arena {
    _Atomic uint64_t largest[CAMP_KEYS];
    _Atomic uint32_t inside[CAMP_LIVES], waiting[CAMP_LIVES];
    _Atomic uint32_t odd;   /* set: turns are about the keys with odd names */
    _Atomic uint32_t hurry; /* set: nobody stays inside for long */
    _Atomic uint32_t crowd; /* set: all want one key, and come and go */
} camp_arena;

#endif
