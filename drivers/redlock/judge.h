/* judge.h - what the servers' answers mean for one place. */
#ifndef HF_DRIVERS_REDLOCK_JUDGE_H
#define HF_DRIVERS_REDLOCK_JUDGE_H

#include "redlock.h"

/* The answer about a vote; true: it must be taken back. */
bool judge_vote(const redlock_round *round, const vote_tally *tally,
                const hf_place *place, format_answer *ret);
/* The answer about something that is mine or is not; false: it is open. */
bool judge_other(redlock_round *round, const vote_tally *tally,
                 const hf_place *place, format_answer *ret);
/* A leave is about to go out: what is known of earlier ones, and does it
 * matter what it finds? */
void judge_prepare_leave(redlock_round *round);
/* The answer about a leave, which has one place; false: it is open. */
bool judge_leave(redlock_round *round, const hf_place *place,
                 format_answer *ret);
/* Was a server asked that did not say what it did? */
bool judge_unsure(const redlock_round *round);

#endif
