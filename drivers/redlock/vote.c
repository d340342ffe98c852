/* vote.c - what the answers of several servers amount to.
 *
 * Two questions.  Is the lock mine?  Yes when a majority has it as mine: any
 * two majorities share a server, and a server has one owner.  For how long?
 * As long as a majority still has it: the smallest of the best majority.
 *
 * And which number is the token?  Each server draws a number of its own, larger
 * than all that it ever knew for this lock, when it gives the lock away.  The
 * largest of them is told only when a majority of servers *that have the lock
 * as mine* count with it; those that are behind are raised first, and count
 * again when they have answered that.  The next holder then has one of exactly
 * these servers in its own majority, and got it after we had gone: it draws a
 * larger number there.  A majority of any servers is not enough: one of them
 * may have given its vote to the next holder before it was raised, and none of
 * the votes that this one gets later is larger (model_test.c shows both).
 *
 * A leave is counted over all its attempts, since the second finds nothing
 * where the first was done: which servers gave it back is carried along.  One
 * rule says whether it is over and what it was.  If there were two, a round
 * that ends with its third answer could end open whenever the same three are
 * the quickest, again and again, and the leave would never be done.
 *
 * Knows nothing of servers, time or threads. */
#include "vote.h"

static void count_other(vote_tally *tally, const vote *v)
{
    tally->dead += v->code == VOTE_DEAD;
    tally->alien += v->code == VOTE_ALIEN;
    tally->young += v->code == VOTE_YOUNG;
    if (v->left_ms >= 0 && (tally->left_ms < 0 || v->left_ms < tally->left_ms))
        tally->left_ms = v->left_ms;
    else if (v->left_ms == -1 && tally->left_ms == -2)
        tally->left_ms = -1;
}

/* The n-th largest time that is left among those that are mine. */
static int64_t left_of_best(const vote *votes, size_t stride, size_t nodes,
                            unsigned n)
{
    int64_t best = 0;

    for (size_t i = 0; i < nodes; i++) {
        const vote *v = &votes[i * stride];
        unsigned as_long = 0;

        if (!v->heard || v->code != VOTE_MINE)
            continue;
        for (size_t j = 0; j < nodes; j++) {
            const vote *w = &votes[j * stride];

            as_long +=
                w->heard && w->code == VOTE_MINE && w->left_ms >= v->left_ms;
        }
        if (as_long >= n && v->left_ms > best)
            best = v->left_ms;
    }
    return best;
}

vote_tally vote_count(const vote *votes, size_t stride, size_t nodes)
{
    vote_tally tally = {.left_ms = -2};
    unsigned majority = vote_majority(nodes);

    for (size_t i = 0; i < nodes; i++) {
        const vote *v = &votes[i * stride];

        if (!v->heard)
            continue;
        tally.heard++;
        if (v->code != VOTE_MINE) {
            count_other(&tally, v);
            continue;
        }
        tally.mine++;
        if (v->number > tally.number) {
            tally.number = v->number;
            tally.level = 0;
        }
        tally.level += v->number == tally.number;
    }
    if (tally.mine >= majority) {
        tally.verdict = VOTE_YES;
        tally.left_ms = left_of_best(votes, stride, nodes, majority);
    } else if (tally.heard - tally.mine > nodes - majority) {
        tally.verdict = VOTE_NO;
    }
    return tally;
}

vote_leaving vote_leave(const vote *votes, size_t stride, size_t nodes,
                        unsigned given, bool content)
{
    vote_leaving sum = {.given = given};
    unsigned majority = vote_majority(nodes);

    for (size_t i = 0; i < nodes; i++) {
        const vote *v = &votes[i * stride];

        if (v->heard && v->code == VOTE_MINE)
            sum.given |= 1U << i;
        sum.heard += v->heard;
        if (sum.given >> i & 1)
            sum.had++;
        else
            sum.lost += v->heard;
    }
    if (sum.had >= majority)
        sum.verdict = VOTE_YES;
    else if (sum.lost > nodes - majority || (content && sum.heard >= majority))
        sum.verdict = VOTE_NO;
    return sum;
}
