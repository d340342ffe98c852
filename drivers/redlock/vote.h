/* vote.h - what the answers of several servers amount to.
 *
 * Pure: answers in, a verdict out.  The driver counts real answers with it, and
 * model_test.c those of every order in which messages can be lost, late and
 * swapped. */
#ifndef HF_DRIVERS_REDLOCK_VOTE_H
#define HF_DRIVERS_REDLOCK_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VOTE_NODES_MAX = 9 };

typedef enum vote_code {                 /* as the script answers it */
                         VOTE_OTHER = 0, /* not mine */
                         VOTE_MINE,
                         VOTE_DEAD,  /* a tomb: I have left */
                         VOTE_ALIEN, /* no lock of this layout */
                         /* Not the script's: mine, by a server that was
                          * started too short a time ago to count. */
                         VOTE_YOUNG
} vote_code;

typedef struct vote {
    bool heard;
    vote_code code;
    int64_t left_ms;
    uint64_t number; /* MINE: what this server counts the lock with */
} vote;

typedef enum vote_verdict {
    VOTE_OPEN = 0, /* more answers may decide it */
    VOTE_YES,      /* a majority has it as mine */
    VOTE_NO        /* no majority can have it as mine any more */
} vote_verdict;

typedef struct vote_tally {
    vote_verdict verdict;
    unsigned heard, mine, dead, alien, young;
    int64_t left_ms; /* YES: a majority has it at least so long; else what is
                        left of the others, at the least; -1: for ever,
                        -2: nobody has it */
    uint64_t number; /* the largest of those that have it as mine */
    unsigned level;  /* how many of these have that number */
} vote_tally;

static inline unsigned vote_majority(size_t nodes)
{
    return (unsigned)(nodes / 2 + 1);
}

/* votes[0], votes[stride], ...: of one lock, one per server. */
vote_tally vote_count(const vote *votes, size_t stride, size_t nodes);

/* A leave, over all its attempts. */
typedef struct vote_leaving {
    unsigned given; /* a bit for each server that had it and gave it back */
    unsigned had, lost, heard;
    vote_verdict verdict; /* YES: mine to the end, NO: it was not */
} vote_leaving;

/* given: what earlier attempts found.  content: it is enough to know that a
 * majority has it no more, since nobody asks whether it was mine to the end. */
vote_leaving vote_leave(const vote *votes, size_t stride, size_t nodes,
                        unsigned given, bool content);

/* May the largest number be told as the token?  Only if a majority of servers
 * both has the lock as mine and counts it with that number. */
static inline bool vote_is_level(const vote_tally *tally, size_t nodes)
{
    return tally->verdict == VOTE_YES && tally->level >= vote_majority(nodes);
}

#endif
