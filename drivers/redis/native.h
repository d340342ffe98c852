/* native.h - between the files of the native format; nobody else needs it. */
#ifndef HF_DRIVERS_REDIS_NATIVE_H
#define HF_DRIVERS_REDIS_NATIVE_H

#include "store.h"

#define US(ns) ((ns) / 1000)

/* ---- native_words.c ---- */

void redis_put_id(hf__buf *out, const hf_id *id);
void redis_put_session_key(hf__buf *out, const hf_store *store,
                           const hf_id *sid);
void redis_put_queue_key(hf__buf *out, const hf_store *store,
                         const hf_place *place);
/* One word: run_id and the longest lease, or this, unless it is strict. */
void redis_put_epoch(hf__buf *out, const hf_store *store,
                     const redis_server *server, const char *otherwise);

int64_t redis_item(const resp *reply, size_t i); /* no number: -1 */
void redis_bad_reply(hf_op *op);                 /* finishes op as unknown */
/* It was answered, by an array with at least n elements, first a number; else
 * op is finished. */
bool redis_is_row(hf_op *op, hf_outcome outcome, const resp *reply,
                  const hf_error *why, int64_t n);
void redis_set_times(hf_op *op, int64_t rest_us, int64_t now_us);
/* What the server's clock shows now, as far as we know; rather behind, by how
 * long the last answer was on its way.  It is only proposed as a number: the
 * scripts take a larger one where it is not above the last, so a clock that
 * jumped, or a pause before this, costs nothing but the proposal. */
int64_t redis_server_clock(hf_store *store);
void redis_op_done(hf_op *op); /* finishes it: applied, `sent` is set */
/* False: it is not the answer about a place. */
bool redis_read_place(hf_place *place, const resp *reply);

/* ---- native.c ---- */

/* Hear what is told to this session, from now on; it need not stand when this
 * returns. */
void redis_native_listen(hf_store *store, const hf_id *sid);

/* ---- native_session.c, native_entry.c: begin op ---- */

void redis_native_attach(hf_store *store, hf_op *op);
void redis_native_renew(hf_store *store, hf_op *op);
void redis_native_detach(hf_store *store, hf_op *op);
void redis_native_join(hf_store *store, hf_op *op);
void redis_native_leave(hf_store *store, hf_op *op);
void redis_native_recheck(hf_store *store, hf_op *op);
void redis_native_place(hf_store *store, hf_op *op); /* confirm, publish */
void redis_native_evict(hf_store *store, hf_op *op);

#endif
