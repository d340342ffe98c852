/* join.h - what join.c and find.c do for each other. */
#ifndef HF_DRIVERS_ZOOKEEPER_JOIN_H
#define HF_DRIVERS_ZOOKEEPER_JOIN_H

#include "store.h"

static inline bool zk_is_permit(const zk_job *job)
{
    return job->entry->mode == HF_PERMIT;
}

/* ---- join.c ---- */

void zk_join_begin(zk_job *job);
void zk_join_create(zk_job *job);
/* What the list of the queue says, while it is here. */
void zk_join_take_list(zk_job *job, const zk_reply *reply);
/* The flight with that list has landed. */
void zk_join_judged(zk_job *job);
/* All is known of who else uses the key. */
void zk_join_surveyed(zk_job *job);
/* HF_EBUSY or HF_EKIND, when nothing of it is in the store. */
void zk_join_refuse(zk_job *job, int code);
void zk_join_forget(zk_job *job);

/* ---- find.c ---- */

void zk_join_find(zk_job *job); /* was it created? */
void zk_join_list(zk_job *job); /* it was: who else is there? */
void zk_join_try(zk_job *job);  /* before anything is written */

#endif
