/* state.h - what the mem store remembers: sessions, queues, entries.
 *
 * Shared by state.c (lifetimes and grants), model.c (the operations) and
 * list.c (the listing); nobody else looks inside.
 *
 * Invariant between two operations: no entry stands in a queue that
 * hfd_admit_due would grant, no queue is empty, and the granted entries of a
 * queue stand before the waiting ones. */
#ifndef HF_DRIVERS_MEM_STATE_H
#define HF_DRIVERS_MEM_STATE_H

#include "model.h"
#include "table.h"

#define MEM_OF(ptr, type, member)                                              \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

typedef struct mem_ring { /* a doubly linked ring with a head of its own */
    struct mem_ring *prev, *next;
} mem_ring;

#define MEM_EACH(at, head)                                                     \
    for (mem_ring *at = (head)->next, *at##_next = at->next; at != (head);     \
         at = at##_next, at##_next = at->next)

static inline void mem_ring_init(mem_ring *ring)
{
    ring->prev = ring->next = ring;
}

static inline void mem_ring_append(mem_ring *head, mem_ring *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* A node that is in no ring may be removed again. */
static inline void mem_ring_remove(mem_ring *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    mem_ring_init(node);
}

typedef struct mem_session {
    mem_link by_sid;
    mem_ring all; /* of the living ones; alone when dead */
    mem_ring entries;
    hf_id sid;
    bool alive;
    int32_t reason; /* of the dead: what its entries answer */
    uint32_t news;  /* entries of it that the owner must hear of */
    hf_nsec ends, ttl;
    char name[]; /* NUL-terminated */
} mem_session;

typedef struct mem_queue {
    mem_link by_key;
    mem_ring entries; /* by num */
    size_t count, granted;
    struct mem_queue *touched_next;
    bool touched;
    size_t key_len;
    char key[]; /* NUL-terminated */
} mem_queue;

typedef struct mem_entry {
    mem_link by_rid;
    mem_ring in_queue, in_session, timed;
    mem_queue *queue; /* NULL: only the memory of one that is gone */
    mem_session *session;
    hf_id rid;
    uint8_t mode;
    bool granted, closed, broken, heard, tomb;
    bool nudge; /* the one ahead went; told when the operation ends */
    uint32_t places, run;
    int32_t reason; /* of one that is gone */
    uint64_t num, token;
    hf_nsec lease, born;
    hf_nsec ends; /* an end of its own, or HF_NEVER: with its session */
    hf_nsec broken_until;
    void *value;
    size_t value_len;
} mem_entry;

struct hf__mem_store {
    hf__mem_tell tell;
    bool marks, each;
    int64_t pid;
    char host[64];
    uint64_t counter;
    mem_table sessions, queues, rids;
    mem_ring living; /* sessions */
    mem_ring timed;  /* entries with an end of their own */
    size_t living_count, entry_count;
    hf_nsec next_due; /* nothing ends before it */
    mem_queue *touched;
    hf_seat *seats; /* scratch, as long as the longest queue */
    size_t seats_cap;
};

/* ---- state.c ------------------------------------------------------------ */

mem_session *hf__mem_find_session(const hf__mem_store *store, const hf_id *sid);
mem_entry *hf__mem_find_entry(const hf__mem_store *store, const hf_id *rid);
mem_queue *hf__mem_find_queue(const hf__mem_store *store, const char *key,
                              size_t len);

/* NULL: out of memory, and nothing changed. */
mem_session *hf__mem_add_session(hf__mem_store *store, const hf_op *op);
mem_entry *hf__mem_add_entry(hf__mem_store *store, mem_session *session,
                             const hf_place *place);
/* The memory of a request that must never come to life. */
mem_entry *hf__mem_add_tomb(hf__mem_store *store, mem_session *session,
                            const hf_id *rid);

/* Take the entry out of its queue.  remember: answer for it as long as its
 * session lives; else it is freed.  hf__mem_settle must follow. */
void hf__mem_remove_entry(hf__mem_store *store, mem_entry *entry, int reason,
                          bool remember);
/* As if it had never been there: nobody is told, nobody granted. */
void hf__mem_undo_entry(hf__mem_store *store, mem_entry *entry);
/* Declare it dead, then remove the entries that live and die with it. */
void hf__mem_end_session(hf__mem_store *store, mem_session *session,
                         int reason);
/* Give the entry an end of its own. */
void hf__mem_set_end(hf__mem_store *store, mem_entry *entry, hf_nsec ends);
void hf__mem_break_entry(hf__mem_store *store, mem_entry *entry, hf_nsec until);
void hf__mem_note_due(hf__mem_store *store, hf_nsec at);
/* Tell the owner, now and with each renewal until it leaves. */
void hf__mem_tell_news(hf__mem_store *store, mem_entry *entry, int reason);

/* Everything that ended by now: declared dead, removed, passed on. */
void hf__mem_sweep(hf__mem_store *store, hf_nsec now);
/* Grant what is due in this queue; the joiner's token is its number, and it
 * is not told. */
void hf__mem_grant_due(hf__mem_store *store, mem_queue *queue,
                       const mem_entry *joiner);
/* The same in all queues that entries left, and drop the empty ones. */
void hf__mem_settle(hf__mem_store *store);

/* ---- answer.c ----------------------------------------------------------- */

/* The store answered, and said no; or it did nothing at all. */
void hf__mem_refuse(hf_op *op, int code, const char *text);
void hf__mem_fail(hf_op *op, int code, const char *text);
hf_nsec hf__mem_add_time(hf_nsec at, hf_nsec span);
/* What is left of who holds: until then nothing but a push is worth a look. */
hf_nsec hf__mem_time_to_look(const mem_queue *queue, hf_nsec now);
void hf__mem_answer_gone(hf_place *place, int reason);
/* Fill place from its entry; false: out of memory for the seats. */
bool hf__mem_answer_place(const hf__mem_store *store, const mem_entry *entry,
                          hf_place *place, hf_nsec now);
/* Why a rid that nobody remembers is not there; session may be NULL. */
int hf__mem_reason_of(const mem_session *session);
/* The entry of op->place that stands in a queue and is open; else NULL, and the
 * place is answered as gone. */
mem_entry *hf__mem_open_entry(hf__mem_store *store, hf_op *op,
                              const mem_session *session);

/* ---- model.c ------------------------------------------------------------ */

/* 0, or why this place can stand in no queue. */
int hf__mem_check_join(hf__mem_store *store, hf_op *op);
/* A new entry at the tail, with its number and value; NULL: no memory. */
mem_entry *hf__mem_append_entry(hf__mem_store *store, const hf_op *op,
                                mem_session *session, hf_nsec now);

/* ---- each.c ------------------------------------------------------------- */

/* The operations that differ where every hold expires by itself; false: op is
 * none of them. */
bool hf__mem_run_each(hf__mem_store *store, hf_op *op, mem_session *session,
                      hf_nsec now);

/* ---- list.c ------------------------------------------------------------- */

/* When the entry ends unless renewed: its own end, its session's or its
 * break's, whichever is first. */
hf_nsec hf__mem_entry_end(const mem_entry *entry);
/* Emits the rows of HF_OP_LIST; false: out of memory. */
bool hf__mem_list(hf__mem_store *store, hf_op *op, hf_nsec now);

#endif
