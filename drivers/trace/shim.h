/* shim.h - what every shim does alike: open the inner driver and delegate.
 *
 * A shim is a driver whose store begins with a `shim`.  It fills its table
 * with the functions below and replaces those that it is about.  The table is
 * fixed before the inner driver is known, so the optional functions are always
 * there: park and unpark are made up here for an inner driver that has none. */
#ifndef HF_DRIVERS_TRACE_SHIM_H
#define HF_DRIVERS_TRACE_SHIM_H

#include <pthread.h>

#include <holdfast/driver.h>

typedef struct shim_mark { /* a place that was woken and has not slept since */
    struct shim_mark *next;
    hf_id rid;
} shim_mark;

typedef struct shim_sleeper {
    struct shim_sleeper *next;
    hf_id rid;
    bool woken;
} shim_sleeper;

typedef struct shim {
    const hf_driver *inner;
    hf_store *store; /* the inner one */
    hf_host host;    /* the core's */
    /* For an inner driver without park: */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    shim_mark *marks;
    shim_sleeper *sleepers;
    bool missed; /* a mark was lost for want of memory: wake the next */
} shim;

/* Opens what stands after '+'.  told: what the inner store calls, with the
 * shim's own ctx; its functions end in the shim_tell_ ones. */
int shim_open(shim *self, const hf_url *url, const hf_host *host,
              const hf_host *told, uint32_t *ret_caps, hf_error *err);
void shim_close(shim *self);

/* Before an operation goes to the inner store: a join or recheck begins a new
 * watch on its places, a leave ends it. */
void shim_note_op(shim *self, const hf_op *op);

/* Pass on what the inner store said. */
void shim_tell_changed(shim *self, const hf_id *rid, const hf_place *fresh);
void shim_tell_news(shim *self, const hf_id *rid, int reason);
void shim_tell_doubt(shim *self, int reason, const char *text);

/* The rest of the table; store is a shim. */
void shim_abandon(hf_store *store);
void shim_drive(hf_store *store, hf_op *op);
int shim_fd(hf_store *store);
void shim_dispatch(hf_store *store);
void shim_park(hf_store *store, const hf_place *place, hf_nsec until);
void shim_unpark(hf_store *store, const hf_place *place);
int shim_life_fd(hf_store *store);

const char *shim_op_name(hf_op_kind kind); /* "join" */

#endif
