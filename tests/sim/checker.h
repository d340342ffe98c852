/* checker.h - is this history one that the promises allow? */
#ifndef HF_SIM_CHECKER_H
#define HF_SIM_CHECKER_H

#include "sim/history.h"

typedef struct sim_verdict {
    int invariant; /* 0: the history is good; else the n of In */
    char text[160];
    size_t at;     /* index of the event that convicts */
    uint32_t task; /* concerned */
    uint32_t rival;
    uint8_t key;
} sim_verdict;

/* True: good.  Else *ret says which invariant is broken, and where. */
bool sim_check(const sim_history *history, sim_verdict *ret);
void sim_print_verdict(FILE *out, const sim_history *history,
                       const sim_verdict *verdict);

#endif
