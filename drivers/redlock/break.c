/* break.c - take a lock away from whoever has it, on all servers.
 *
 * One script everywhere: delete the key if it is a lock, and if a token was
 * given only where the server counts with it.  It is done when a majority has
 * answered, and told when it is known whether a majority had it; what only a
 * minority had was no lock, and its deletion is not counted.  Reply lost: asked
 * again, it finds less to delete and says so. */
#include "redlock.h"

static void evicted(redlock_round *round)
{
    hf_op *op = round->op;
    redlock_store *store = round->store;
    unsigned majority = vote_majority(store->count), done = 0, alien = 0;
    hf_error why = {0};
    hf_outcome outcome;

    redlock_op_of(op)->round = NULL;
    op->sent = round->sent;
    for (size_t i = 0; i < store->count; i++) {
        const redlock_call *call = &round->calls[i];

        if (!call->landed || call->outcome != HF_APPLIED)
            continue;
        done += call->said > 0;
        alien += call->said < 0;
    }
    if (round_heard(round) < majority) {
        outcome = round_why(round, &why);
        redis_op_failed(op, outcome, &why);
    } else if (alien > store->count - majority) {
        redis_op_refuse(op, HF_EKIND,
                        "the key holds a record that is no lock of this "
                        "layout: use the format of those who wrote it");
    } else {
        op->count = done > store->count - majority ? 1 : 0;
        format_finish(&store->base, op);
    }
}

void format_evict(hf_store *base, hf_op *op)
{
    redlock_store *store = redlock_of(base);
    const format_data *data = format_of(base);
    redlock_round *round = round_new(store, op, SHAPE_NUMBER, 0);
    redis_call plain = {.by_text = false};
    char key[FORMAT_KEY_MAX];
    size_t len = format_key(data, op->text, op->text_len, key);

    if (!round) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    resp_script(&round->bytes, &plain, data->kind->evict, 1, 3);
    resp_word(&round->bytes, key, len);
    resp_text(&round->bytes, data->extra);
    resp_number(&round->bytes, (int64_t)op->token);
    if (round->bytes.failed) {
        round_drop(round);
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    round->complete = evicted;
    if (op->driven)
        redlock_op_of(op)->round = round;
    round_start(round, op->deadline);
}
