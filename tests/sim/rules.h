/* rules.h - what the checker keeps while it reads, for its own two files. */
#ifndef HF_SIM_RULES_H
#define HF_SIM_RULES_H

#include <holdfast/holdfast.h>

#include "sim/checker.h"

enum { GRANTS_MAX = 2048, ACTIVE_MAX = 64 };

typedef enum task_state {
    UNSEEN,
    ASKED,
    HELD,
    LOST,
    RELEASING,
    DONE
} task_state;

typedef struct task {
    task_state state;
    uint8_t life, key, mode, flags;
    uint32_t places;
    int64_t asked, wait_until, granted, until, longest;
    uint64_t floor, token, session;
    bool rival, cancelled;
} task;

typedef struct grant {
    int64_t at;
    uint64_t token, num;
    uint32_t run;
    uint8_t life, mode;
    bool told;
    int64_t lost; /* when a holder of it was told so; 0: never */
} grant;

typedef struct key_state {
    uint64_t told_max, granted_num, granted_token, acted;
    uint32_t active[ACTIVE_MAX]; /* granted and not given back */
    size_t active_count;
    bool broken; /* by an operator, some time */
    grant grants[GRANTS_MAX];
    size_t grant_count;
} key_state;

typedef struct checker {
    const sim_history *history;
    sim_verdict *verdict;
    size_t i;
    int64_t calm;
    uint32_t task_count;
    task tasks[SIM_TASKS];
    key_state keys[SIM_KEYS];
} checker;

/* The first conviction counts. */
void sim_convict(checker *c, int invariant, uint32_t who, uint32_t rival,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* May these two modes not hold together? */
static inline bool excludes(uint8_t a, uint8_t b)
{
    return a == HF_EXCLUSIVE || b == HF_EXCLUSIVE;
}

/* An event that a caller saw; false: it is none of these. */
bool sim_check_caller(checker *c, const sim_event *e);

#endif
