/* case.h - a history as the checker sees it: records, requests, processes. */
#ifndef HF_CAMPAIGN_CASE_H
#define HF_CAMPAIGN_CASE_H

#include <stdbool.h>
#include <stdio.h>

#include "record.h"

enum { CAMP_FAULTS = 64, CAMP_VERDICTS = 50, CAMP_NEVER = -1 };

/* One request, and the hold that came of it.  An instant of 0 has not come. */
typedef struct camp_task {
    uint32_t life, task, above;
    uint8_t key, mode, flags;
    bool granted, released, lost_told;
    bool left; /* nobody gave it back: its thread ended */
    int32_t code, release_code;
    int64_t asked, answered, wait_until;
    int64_t length;     /* it ends by itself so long after it was asked for */
    int64_t until;      /* the longest belief that a check was answered with */
    int64_t lost;       /* first word of a loss: a notice, or a bad check */
    int64_t lost_check; /* the first check that said so was called then */
    int64_t lost_notice;
    int64_t release_called, release_answered;
    int64_t run_start; /* its process has been at this key since then */
    uint64_t token;
} camp_task;

typedef struct camp_life {
    camp_task *tasks; /* by number, from 1 */
    uint32_t most;
    int64_t killed; /* INT64_MAX: it was not */
    bool begun, ended;
} camp_life;

/* A time in which a fault was at work, up to a lease after it was healed. */
typedef struct camp_window {
    int64_t from, to, healed;
    int32_t fault;
} camp_window;

typedef struct camp_verdict {
    int invariant;
    int64_t at;
    uint32_t life, task, rival_life, rival_task;
    char text[200];
} camp_verdict;

typedef struct camp_counts {
    uint64_t records, damaged, asked, granted, refused, lost, checks, acts,
        fenced, forks, order_pairs, stalls, kills, stops, allowed, wakes,
        late_wakes;
} camp_counts;

typedef struct camp_case {
    camp_record *records; /* in the order of time */
    size_t count, room;
    camp_task **tasks; /* all, by the instant of the request */
    size_t task_count;
    camp_window *windows;
    size_t window_count;
    int64_t *calms; /* instants */
    size_t calm_count;
    camp_life lives[CAMP_LIVES];
    int64_t begin, lease, calm, finish;
    uint64_t promises, excuses;
    camp_verdict verdicts[CAMP_VERDICTS];
    size_t verdict_count; /* of all, also those that found no room */
    camp_counts counts;
} camp_case;

/* Adds what the bytes of one file hold; false: out of memory.  What is
 * damaged is counted and left out. */
bool camp_add(camp_case *c, const void *bytes, size_t size);
/* Sorts, and makes requests of the records.  Then the rules may look. */
bool camp_build(camp_case *c);
void camp_free(camp_case *c);

/* Every rule; returns how many times an invariant was broken. */
size_t camp_judge(camp_case *c);
void camp_judge_holds(camp_case *c);   /* I1, I2, I3 */
void camp_judge_answers(camp_case *c); /* I4, I8, I9, I10 */
void camp_judge_losses(camp_case *c);  /* I4, I5 */
void camp_judge_wakes(camp_case *c);   /* I6 */
void camp_judge_order(camp_case *c);   /* I7 */

void camp_convict(camp_case *c, int invariant, int64_t at, const camp_task *t,
                  const camp_task *rival, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* When the belief of this hold began and ended; false: it had none. */
bool camp_belief(const camp_case *c, const camp_task *t, int64_t *ret_from,
                 int64_t *ret_to);
/* How long this process is known to have stood still between two instants. */
int64_t camp_stalled(const camp_case *c, uint32_t life, int64_t from,
                     int64_t to);
/* Is a fault at work at some instant between these? */
bool camp_faulty(const camp_case *c, int64_t from, int64_t to);

/* The same of one kind of fault alone. */
bool camp_struck(const camp_case *c, int fault, int64_t from, int64_t to);
/* Does the store's page say that there may be two holders under a fault that
 * was at work between these instants?  Counted, if so. */
bool camp_excused(camp_case *c, int64_t from, int64_t to);

/* Is there a reason for an answer of this kind between these instants: a fault
 * that can have caused it, or a machine that was too busy for this process? */
bool camp_reason(const camp_case *c, int code, uint32_t life, int64_t from,
                 int64_t to);
/* Was the machine so busy then that somebody waited so long for nothing? */
bool camp_busy(const camp_case *c, uint32_t life, int64_t from, int64_t to,
               int64_t so_long);
/* Since when all was healed, and nobody has struck up to this instant; 0: that
 * is not so. */
int64_t camp_calm_since(const camp_case *c, int64_t at);

void camp_print(FILE *out, const camp_case *c, const camp_verdict *v);

#endif
