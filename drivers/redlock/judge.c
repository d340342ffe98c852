/* judge.c - what the servers' answers mean for one place.
 *
 * A vote is a grant if a majority has it and time is left of it; what a renewal
 * or a look finds is mine or is not; a leave is done when a majority has given
 * it back, over all its attempts.  What was not decided is told as open, and
 * what is sent because of all that is act.c's.  No answer is never taken for
 * one.
 *
 * What is left is what the best majority has, less what their clocks may drift
 * apart in that time, and counted by the caller from before the first byte: a
 * thread that is paused here finds less, never more. */
#include "judge.h"

/* The algorithm's allowance for clocks that do not run alike. */
static int64_t less_drift(int64_t left_ms, int64_t lease_ms)
{
    int64_t left = left_ms - lease_ms / 100 - 2;

    return left > 0 ? left : 0;
}

bool judge_unsure(const redlock_round *round)
{
    for (size_t i = 0; i < round->store->count; i++) {
        if (!round->calls[i].landed || round->calls[i].outcome == HF_UNKNOWN)
            return true;
    }
    return false;
}

static uint64_t token_of(redlock_store *store, const hf_place *place)
{
    format_data *data = format_of(&store->base);
    const format_record *record;
    uint64_t token = 0;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (record)
        token = record->token;
    pthread_mutex_unlock(&data->mu);
    return token;
}

/* The answer about a vote; true: it must be taken back. */
bool judge_vote(const redlock_round *round, const vote_tally *tally,
                const hf_place *place, format_answer *ret)
{
    hf_nsec spent = hfd_now() - redis_op_of(round->op)->call.sent;
    int64_t lease_ms = format_lease_ms(round->op, place);
    size_t nodes = round->store->count;

    ret->left_ms = tally->left_ms;
    ret->code = FORMAT_BUSY;
    if (tally->dead > 0) {
        ret->code = FORMAT_DEAD;
    } else if (tally->verdict == VOTE_YES) {
        ret->left_ms = less_drift(tally->left_ms, lease_ms);
        ret->token = tally->number;
        if (HF_MS(ret->left_ms) > spent)
            ret->code = FORMAT_MINE;
    } else if (tally->alien > nodes - vote_majority(nodes)) {
        ret->code = FORMAT_ALIEN;
    } else if (tally->mine + tally->young >= vote_majority(nodes)) {
        ret->code = FORMAT_YOUNG;
    }
    return ret->code != FORMAT_MINE &&
           (tally->mine > 0 || round->hidden || round->store->settled > 0 ||
            judge_unsure(round));
}

/* The answer about something that is mine or is not; false: it is open. */
bool judge_other(redlock_round *round, const vote_tally *tally,
                 const hf_place *place, format_answer *ret)
{
    int64_t lease_ms = format_lease_ms(round->op, place);

    ret->code = FORMAT_BUSY;
    ret->left_ms = tally->left_ms;
    if (tally->verdict == VOTE_YES) {
        ret->code = FORMAT_MINE;
        ret->left_ms = less_drift(tally->left_ms, lease_ms);
        ret->token = token_of(round->store, place);
    } else if (tally->alien > 0 && tally->mine == 0) {
        ret->code = FORMAT_ALIEN;
    }
    return tally->verdict != VOTE_OPEN;
}

/* Whether it was ours to the end is asked of what was granted, by the thread
 * that gives it back and by the first attempt of one that does not wait.  For
 * all others (who waited in vain, and what is repeated with nobody to tell) it
 * is enough that a majority has it no more: or a minority that is down would
 * keep this process from its own lock for as long as it is down.  Not so what
 * is to be kept from others for a while: that needs a majority. */
void judge_prepare_leave(redlock_round *round)
{
    format_data *data = format_of(&round->store->base);
    const format_record *record;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, &round->op->place->rid);
    round->leaves = true;
    round->given = record ? record->given : 0;
    round->content =
        !record || record->state != FORMAT_GRANTED ||
        (record->left && !round->op->driven && round->op->keep == 0);
    pthread_mutex_unlock(&data->mu);
}

/* A leave that too few answered is asked again, and then finds less: which
 * servers had it is remembered.  So a lock that was lost is told as lost, also
 * by the second answer.  False: it is open. */
bool judge_leave(redlock_round *round, const hf_place *place,
                 format_answer *ret)
{
    redlock_store *store = round->store;
    format_data *data = format_of(&store->base);
    size_t nodes = store->count;
    vote_leaving sum =
        vote_leave(round->votes, 1, nodes, round->given, round->content);
    format_record *record;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (record) {
        record->given = (uint16_t)sum.given;
        /* Else "gone" after a leave without an answer is that one's doing. */
        if (sum.had > 0 && sum.lost > nodes - vote_majority(nodes))
            record->left = false;
    }
    pthread_mutex_unlock(&data->mu);
    ret->code = sum.verdict == VOTE_YES ? FORMAT_MINE : FORMAT_BUSY;
    ret->left_ms = -2;
    return sum.verdict != VOTE_OPEN;
}
