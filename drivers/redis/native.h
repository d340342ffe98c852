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
/* One word: what lua/quarantine.lua needs, or this, unless it is strict. */
void redis_put_epoch(hf__buf *out, const hf_store *store,
                     const char *otherwise);

int64_t redis_item(const resp *reply, size_t i); /* no number: -1 */
/* Microseconds as a span of time; none, or nonsense: 0. */
hf_nsec redis_span(const resp *reply, size_t i);
void redis_bad_reply(hf_op *op); /* finishes op as unknown */
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
/* A number to propose: that, or above every token that was granted here.  So
 * tokens never go back as this process sees them, whatever the server forgot.
 * *ret_plain becomes false where the two are far apart: then the server's clock
 * is wrong, and must not be guessed from the number. */
int64_t redis_next_number(hf_store *store, bool *ret_plain);
void redis_note_token(hf_store *store, const hf_place *place);
void redis_op_done(hf_op *op); /* finishes it: applied, `sent` is set */
/* False: it is not the answer about a place. */
bool redis_read_place(hf_place *place, const resp *reply);

/* ---- native.c ---- */

/* A session attaches: the channel is to be its own from now on. */
void redis_native_begins(hf_store *store, const hf_id *sid);
/* Hear what is told to this session, from now on; it need not stand when this
 * returns. */
void redis_native_listen(hf_store *store, const hf_id *sid);

/* ---- native_session.c, native_entry.c: begin op ---- */

void redis_native_attach(hf_store *store, hf_op *op);
void redis_native_renew(hf_store *store, hf_op *op);
void redis_encode_renew(redis_call *call, hf__buf *out,
                        const redis_server *server);
void redis_renew_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why);
void redis_native_detach(hf_store *store, hf_op *op);
void redis_native_join(hf_store *store, hf_op *op);
void redis_native_leave(hf_store *store, hf_op *op);
void redis_native_recheck(hf_store *store, hf_op *op);
void redis_native_place(hf_store *store, hf_op *op); /* confirm, publish */
void redis_native_evict(hf_store *store, hf_op *op);

/* ---- native_keep.c ---- */

void redis_native_renew_there(hf_store *store, hf_op *op); /* in a cluster */

/* ---- native_replicas.c: replicas=N ---- */

/* Before it is sent: this one is to be confirmed by replicas. */
void redis_ask_replicas(hf_store *store, hf_op *op);
/* In front of and behind the script, where that was asked for. */
void redis_put_mark(hf__buf *out, redis_call *call, const hf_store *store);
void redis_put_wait(hf__buf *out, const redis_call *call, const hf_op *op);
/* Has it too few of them?  Then *ret says so. */
bool redis_lacks_replicas(hf_op *op, hf_error *ret);
/* Leave again, and finish op with *why. */
void redis_give_back(hf_op *op, const hf_error *why);
void redis_native_write_leave(redis_call *call, hf__buf *out,
                              const redis_server *server);

#endif
