/* model.h - the store that the mem driver is, as a pure value.
 *
 * One call runs one operation of driver.h against the whole state, at an
 * instant of the store's clock that the caller names.  It reads no clock, takes
 * no lock, calls no `done`: the driver (mem.c) puts a mutex around it, the
 * simulator a network with delays and losses.
 *
 * What the store would push is told through mem_tell, during the run, before
 * it returns; the caller must not run the model again from inside. */
#ifndef HF_DRIVERS_MEM_MODEL_H
#define HF_DRIVERS_MEM_MODEL_H

#include <holdfast/driver.h>

typedef struct hf__mem_store hf__mem_store;

typedef struct hf__mem_tell {
    void *ctx;
    /* The queue ahead of this waiting entry changed.  fresh (NULL without
     * marks): its grant. */
    void (*changed)(void *ctx, const hf_id *sid, const hf_id *rid,
                    const hf_place *fresh);
    /* The entry was broken, or its fixed lease ran out.  Told when it happens,
     * and again with each renewal of the session until the owner leaves. */
    void (*news)(void *ctx, const hf_id *sid, const hf_id *rid, int reason);
} hf__mem_tell;

/* An empty store with grant marks; NULL: out of memory. */
hf__mem_store *hf__mem_model_new(void);
void hf__mem_model_free(hf__mem_store *model);

/* Before the first run: whom to tell (copied), and whether the store marks
 * grants.  Without marks it answers HF_JUDGE, its tokens are the numbers, and a
 * break removes at once, as in ZooKeeper and etcd. */
void hf__mem_model_tell(hf__mem_store *model, const hf__mem_tell *tell);
void hf__mem_model_set_marks(hf__mem_store *model, bool marks);
bool hf__mem_model_marks(const hf__mem_store *model);
/* Every hold expires by itself, and there is no queue: who finds a key taken
 * stores nothing and has to ask again.  A session is a name; it is renewed hold
 * by hold (HF_CAP_EACH), as in the layouts of other libraries. */
void hf__mem_model_set_each(hf__mem_store *model, bool each);
bool hf__mem_model_each(const hf__mem_store *model);
/* What HF_OP_LIST shows as the process of every session. */
void hf__mem_model_set_who(hf__mem_store *model, int64_t pid, const char *host);

/* Executes op: fills the answers of op and of its places, outcome and error,
 * but neither `sent` nor `done`.  store_now never goes back. */
void hf__mem_model_run(hf__mem_store *model, hf_op *op, hf_nsec store_now);

/* Loses sessions, queues and all memory of the dead, as a replica that never
 * heard of them; the counter goes on, as behind a floor. */
void hf__mem_model_forget(hf__mem_store *model);

/* How many entries and living sessions there are: for leak checks. */
size_t hf__mem_model_entries(const hf__mem_store *model);
size_t hf__mem_model_sessions(const hf__mem_store *model);

#endif
