/* suite.h - what every driver must do, asked through driver.h alone.
 *
 * One file per clause of the contract; each test opens a few parties (a store
 * and a session each, on the same URL, as separate processes would) and runs
 * operations on them.  A test never looks at a driver's name: what differs
 * between stores is in the caps that open answers and in the quirks of the
 * target's row.
 *
 * A driver joins by a row in targets.c. */
#ifndef HF_TESTS_CONFORMANCE_SUITE_H
#define HF_TESTS_CONFORMANCE_SUITE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <holdfast/driver.h>

#include "harness/expect.h"
#include "harness/runner.h"

/* ---- Targets ------------------------------------------------------------ */

typedef struct quirks {
    int lease_min_ms;   /* the shortest lease that the store keeps */
    int late_ms;        /* and how much later than that it may end one */
    bool break_at_once; /* evict without `now` removes at once, too */
    bool text_names;    /* a name is a short text in UTF-8, not any bytes */
    bool lists_less;  /* what others hold is listed by a hash, or not at all */
    bool observes;    /* a lease is over for whoever watched it stand still */
    bool has_sibling; /* another target runs the same code: not every queue */
    bool has_cousin;  /* ... nearly the same: an eighth of the long ones */
    bool few_holds;   /* each takes a connection of the server */
    /* A waiter is passed over until its store listens, which takes a moment:
     * each party waits for something before the test begins. */
    bool listens_late;
    /* After each opening: what patience would do, too; NULL: nothing. */
    void (*settle)(const char *which);
} quirks;

typedef struct target {
    const char *name;
    /* Of a store that this test alone uses: "a" twice is one store.  The text
     * lives as long as the test. */
    const char *(*url)(const char *which);
    quirks quirks;
} target;

extern const target targets[];
extern const size_t target_count;
extern const target *the_target; /* chosen by main */

/* What a test asks of a store that not every one has (needs.c). */
void skip_if_unfit(uint32_t caps); /* the test that runs, on these caps */
bool known_needs(const test_case *cases, size_t count); /* names are right */

/* ---- Parties ------------------------------------------------------------ */

enum { PATIENCE_MS = 20000, EVENTS_MAX = 4096, HELD_MAX = 64 };
enum { LONG_MS = 60000 }; /* a lease that ends in no test */

typedef struct event { /* what the store told this party */
    hf_id rid;
    bool any; /* rid was NULL */
    int reason;
    hf_verdict verdict; /* of fresh; 0: none */
    uint64_t token;
} event;

typedef struct party {
    const hf_driver *driver;
    hf_store *store;
    hf_url *url;
    uint32_t caps;
    hf_id sid;
    pthread_mutex_t mutex; /* guards what follows */
    size_t event_count;
    event events[EVENTS_MAX];
    hf_place *held[HELD_MAX]; /* HF_CAP_EACH: what a renewal extends */
    size_t held_count;
    pthread_t server;
    atomic_bool serving;
} party;

/* A store on the test's URL, with a session of this lease; freed by close. */
party *party_open(int ttl_ms);
void party_attach(party *p, int ttl_ms); /* a new sid */
int party_renew(party *p, int ttl_ms);   /* the code */
void party_detach(party *p);
/* Closes without a word to the session: what a crash leaves to the lease. */
void party_drop(party *p);
void party_close(party *p); /* detach and drop */
/* A thread that polls fd and dispatches, as the core's keeper does. */
void party_serve(party *p);
void party_unserve(party *p);

/* ---- Operations --------------------------------------------------------- */

hf_op make_op(const party *p, hf_op_kind kind);
/* Starts, drives, and expects that it is done once and has an answer. */
void run_op(party *p, hf_op *op);

hf_id make_rid(void);
hf_place make_place(const char *key, hf_mode mode);
hf_place make_permit(const char *key, uint32_t places);

/* Each runs one operation and answers its code; the verdict is in the place,
 * judged by the core's rule where the store leaves that to the core. */
int join(party *p, hf_place *place);
int try_join(party *p, hf_place *place);
int join_value(party *p, hf_place *place, const void *value, size_t len);
int recheck(party *p, hf_place *place);
int recheck_many(party *p, hf_place **places, size_t n);
int confirm(party *p, hf_place *place);
int publish(party *p, hf_place *place, const void *value, size_t len);
/* These answer the verdict. */
hf_verdict leave(party *p, hf_place *place);
hf_verdict leave_tomb(party *p, hf_place *place);
hf_verdict leave_keep(party *p, hf_place *place, int keep_ms);
/* How many; breaker's lease as given. */
uint32_t evict(party *p, const char *key, uint64_t token, bool now, int ttl_ms);

/* The usual beginnings. */
void must_hold(party *p, hf_place *place);  /* join answers HF_GRANTED */
void must_wait(party *p, hf_place *place);  /* join answers HF_WAITS */
void must_leave(party *p, hf_place *place); /* leave answers HF_GRANTED */
/* Within the patience a recheck answers this verdict. */
void await_verdict(party *p, hf_place *place, hf_verdict verdict);

/* ---- Pushes ------------------------------------------------------------- */

/* Poll fd and dispatch (unless it is served) until `rid` was told of; false:
 * not within ms. */
bool wait_changed(party *p, const hf_id *rid, int ms);
bool wait_news(party *p, const hf_id *rid, int reason, int ms);
/* Was a grant of rid told? */
bool told_granted(party *p, const hf_id *rid, uint64_t *ret_token);
void forget_events(party *p);

/* ---- Listings ----------------------------------------------------------- */

enum { ROWS_MAX = 4096 };
typedef struct listed {
    hf_entry_info info; /* key, value and name are copies */
    hf_id rid, sid;
} listed;
typedef struct listing {
    size_t count, stop_after; /* 0: never */
    listed rows[ROWS_MAX];
} listing;
/* Entries under prefix; freed by free_listing. */
listing *list_entries(party *p, const char *prefix, size_t len, bool only_mine);
void free_listing(listing *list);
size_t count_entries(party *p); /* all there are */

/* ---- The oracle: who holds in a queue, written once more ---------------- */

typedef struct oracle_entry {
    hf_mode mode;
    uint32_t places;
} oracle_entry;
bool oracle_granted(const oracle_entry *queue, size_t me);

/* ---- The clauses -------------------------------------------------------- */

extern const test_case join_tests[], order_tests[], leave_tests[],
    renew_tests[], expiry_tests[], wait_tests[], publish_tests[], fixed_tests[],
    evict_tests[], list_tests[], error_tests[], name_tests[], kind_tests[],
    storm_tests[], each_tests[];

/* Tokens rise, where there are any. */
#define EXPECT_RISES(p, later, earlier)                                        \
    EXPECT(!HAS_CAP(p, HF_CAP_TOKEN) || (later) > (earlier))
#define HAS_CAP(p, cap) (((p)->caps & (cap)) != 0)
#define SAME_ID(a, b) (memcmp(&(a), &(b), sizeof(hf_id)) == 0)

#endif
