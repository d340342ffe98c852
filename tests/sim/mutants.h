/* mutants.h - are the planted bugs found? */
#ifndef HF_SIM_MUTANTS_H
#define HF_SIM_MUTANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/checker.h"

/* Run one history; true: it is good. */
bool sim_try(uint64_t seed, uint32_t faults, sim_verdict *verdict);

/* A crash or a hang tells the seed before it ends the process. */
void sim_watch_for_crashes(void);

/* Each mutant (or the one named `only`) until it is convicted, at most this
 * many seconds each; main's status. */
int sim_run_mutants(const char *only, double seconds);

#endif
