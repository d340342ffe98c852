/* sentinel.h - the primary that Redis Sentinel names. */
#ifndef HF_DRIVERS_REDIS_SENTINEL_H
#define HF_DRIVERS_REDIS_SENTINEL_H

#include "probe.h"
#include "store.h"

enum { REDIS_SENTINEL_PORT = 26379 };

bool redis_url_is_sentinel(const hf_url *url);

/* Where the URL names sentinels: fills store->finder and takes the primary's
 * name off the front of *io_path; else does nothing.  The addresses of the
 * settings are the sentinels'. */
int redis_sentinel_open(hf_store *store, const hf_url *url,
                        const redis_settings *settings, const char **io_path,
                        hf_error *err);

/* What the sentinels say about the primary, for doctor; -1: not told. */
typedef struct redis_watch {
    int listed, reached;             /* sentinels: of the URL; that answered */
    int64_t sentinels, quorum;       /* as they count them */
    int64_t replicas, down_after_ms; /* of the primary */
    int disagree;                    /* named somebody else than the most do */
    char flags[64];                  /* of the primary: "master,o_down" */
    char name[64];
} redis_watch;
/* Read the replies about it (sentinel_words.c); false: it is no address. */
bool redis_read_primary(const resp *reply, redis_found *ret);
void redis_read_watch(const resp *reply, redis_watch *ret);
/* Asks each of them, on this thread.  False: the store has none. */
bool redis_sentinel_watch(hf_store *store, redis_watch *ret, hf_nsec deadline);
/* Findings about them (sentinel_judge.c). */
void redis_judge_sentinel(const redis_facts *facts, const redis_watch *watch,
                          hf_doctor_fn *emit, void *user);

#endif
