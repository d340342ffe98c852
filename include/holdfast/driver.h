/* driver.h - the contract between the core and a store's driver.
 *
 * A resource is an ordered queue of entries in the store.  The core decides,
 * the driver carries: it opens the store, runs the operations below and tells
 * what the store pushed.  It knows nothing of threads that wait, of owners or
 * of re-entry, and the core knows nothing of the store.
 *
 * THE LAW: sequence order is visibility order.  An entry that becomes visible
 * later has a larger `num`, for the life of the store, also after purges.
 *
 * - The store's clock decides expiry.  A session that expired is declared dead
 *   before its entries go, and both before anybody is granted; nothing revives
 *   it; `renew` never creates.
 * - Every operation is idempotent by rid: a join repeated gives the same place,
 *   a leave repeated succeeds and says that it was gone already.
 * - Every answer is applied, not applied or unknown.  Unknown is an answer.
 * - Operations come from many threads at once.  The core calls with no lock of
 *   its own held; the driver calls the core with none of its own.
 * - Time, randomness and memory come from the hfd_ helpers, so that a driver
 *   runs under the simulator's clock. */
#ifndef HOLDFAST_DRIVER_H
#define HOLDFAST_DRIVER_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_DRIVER_ABI 1

typedef int64_t hf_nsec; /* of CLOCK_BOOTTIME, or a duration */
#define HF_NEVER INT64_MAX
#define HF_MS(ms) ((hf_nsec)(ms)*1000000)

typedef struct hf_id {
    uint8_t bytes[16];
} hf_id;

/* Caps that concern the core alone; they start where the public ones end. */
enum {
    HF_CAP_MARKS = 1 << 16,    /* the store marks the granted entries */
    HF_CAP_RUN = 1 << 17,      /* an entry may own several tokens in a row */
    HF_CAP_BLOCKING = 1 << 18, /* start() returns with the op done */
    HF_CAP_CLOCK = 1 << 19,    /* the store's clock is a wall clock */
    HF_CAP_EACH = 1 << 20      /* holds expire one by one, not with a session:
                                  renew gets them in `places` and extends each,
                                  answering its verdict and remaining */
};

/* ---- The rule: who may hold --------------------------------------------- */

typedef struct hf_seat {
    uint64_t num;
    uint8_t mode;    /* hf_mode */
    uint8_t granted; /* the store's mark; 0 everywhere without HF_CAP_MARKS */
    uint32_t places;
} hf_seat;

typedef enum hf_verdict {
    HF_GRANTED = 1,
    HF_WAITS,
    HF_GONE, /* not in the queue (any more) */
    HF_JUDGE /* no marks here: let the core judge place.seats */
} hf_verdict;

/* Seats in order of num, me an index.  Without marks: am I granted, and if
 * not, whose leaving do I wait for (a permit: the first of those ahead). */
HF_API hf_verdict hfd_admit(const hf_seat *seats, size_t n, size_t me,
                            size_t *ret_for);
/* With marks: set `granted` on every seat whose turn it now is; how many. */
HF_API size_t hfd_admit_due(hf_seat *seats, size_t n);
/* May a newcomer of this kind stand in a queue with that seat? */
HF_API bool hfd_same_kind(const hf_seat *seat, hf_mode mode, uint32_t places);

/* ---- A place in a queue -------------------------------------------------- */

/* The core's memory, alive as long as the entry.  The driver writes the answer
 * only while an operation on it is under way. */
typedef struct hf_place {
    hf_id rid;       /* who: unique for ever */
    const char *key; /* not NUL-terminated for the store's purposes */
    uint16_t key_len;
    uint8_t mode; /* hf_mode */
    uint32_t places;
    hf_nsec lease; /* > 0: fixed lease, outlives the session */
    uint32_t run;  /* tokens wanted in a row, >= 1; answer: how many given */
    /* the answer: */
    hf_verdict verdict;
    int32_t reason;    /* of HF_GONE: HF_EFORCED, HF_EEXPIRED, HF_ENOTHELD */
    uint64_t num;      /* place in the queue */
    uint64_t token;    /* of the grant; owns token .. token + run - 1 */
    hf_nsec remaining; /* of a fixed lease that runs; 0: not started */
    hf_nsec look_in;   /* when waiting: a look is worth while after this long
                          (what is left of the holder); 0: unknown */
    hf_seat *seats;    /* HF_JUDGE: those ahead and me last; hfd_alloc'ed, the
                          core frees it */
    size_t seat_count;
    uint64_t own[2]; /* the driver's notes about this entry */
} hf_place;
/* Set by the core in own[1] before a join whose waiter will not park: tell of
 * it through fd and dispatch. */
#define HF_PLACE_PUSH (UINT64_C(1) << 63)

/* ---- Operations ---------------------------------------------------------- */

typedef enum hf_op_kind {
    HF_OP_ATTACH = 1, /* begin session sid with lease ttl */
    HF_OP_RENEW,      /* extend it; fails with HF_EEXPIRED if it is over */
    HF_OP_DETACH,     /* end it: all its entries leave, waking whom they must;
                         already gone is success */
    HF_OP_JOIN,       /* append place, drop the dead, answer the verdict; with
                         `only_if_granted` append nothing unless granted: then
                         HF_EBUSY, and place.look_in.  HF_EKIND: other kind.
                         HF_EEXPIRED: the session is over */
    HF_OP_CONFIRM,    /* (re)start the fixed lease of a granted place; if gone
                         verdict HF_GONE */
    HF_OP_LEAVE,      /* remove place, wake exactly those whose turn it is.
                         keep > 0: the entry stays, closed, this long.  tomb: a
                         join of this rid still on its way must answer HF_GONE.
                         Verdict HF_GRANTED or HF_WAITS: what it was, removed
                         now; HF_GONE: was not there, and reason */
    HF_OP_RECHECK,    /* for each of places[]: drop the dead ahead, grant what
                         is due, answer the verdict */
    HF_OP_LIST,       /* emit every entry under prefix, or those of sid alone
                         (only_mine), in order of key and num */
    HF_OP_PUBLISH,    /* set the value of a place; if gone verdict HF_GONE */
    HF_OP_EVICT,      /* break: mark (or with `now` remove and pass on) the
                         granted entries of key, of `token` unless 0; count */
    HF_OP_PROBE       /* emit findings about the live store */
} hf_op_kind;

typedef enum hf_outcome {
    HF_UNKNOWN = 0, /* sent, no answer */
    HF_APPLIED,     /* the store answered; code 0, or its refusal */
    HF_NOT_APPLIED  /* the store did not do it; code says why */
} hf_outcome;

typedef struct hf_row { /* what HF_OP_LIST emits */
    hf_entry_info info;
    hf_id rid, sid;
} hf_row;

typedef struct hf_op hf_op;
struct hf_op {
    hf_op_kind kind;
    hf_id sid;         /* the session that speaks */
    hf_nsec deadline;  /* finish by then, with HF_UNKNOWN if need be */
    hf_nsec ttl;       /* attach, renew, evict: the session's lease */
    hf_place *place;   /* join, leave, publish, confirm */
    hf_place **places; /* recheck; with HF_CAP_EACH renew, too */
    size_t place_count;
    const void *value; /* join, publish */
    size_t value_len;
    const char *text; /* list: prefix; evict: key; attach: session's name */
    size_t text_len;
    uint64_t token; /* evict */
    hf_nsec keep;   /* leave */
    bool only_if_granted, tomb, now, only_mine;
    bool driven;   /* drive() follows start() at once, on the same thread */
    bool by_clock; /* recheck: only time has passed; a place of which the driver
                      knows that it waits as before needs no question */
    int (*emit_row)(const hf_row *row, void *user); /* non-zero ends it */
    hf_doctor_fn *emit_finding;
    void *user; /* of the emitters */
    /* the answer: */
    hf_outcome outcome;
    hf_nsec sent;      /* hfd_now() just before the first byte went out */
    hf_nsec remaining; /* of the session's lease, as the store sees it */
    int64_t store_us;  /* HF_CAP_CLOCK: the store's time; else 0 */
    uint32_t count;    /* evict */
    hf_error error;    /* code 0, or why */
    /* the owner's: */
    void (*done)(hf_op *op); /* called once, on any thread, perhaps inside
                                start(); op may be gone when it returns */
    void *core;
    uintptr_t own[16]; /* the driver's, while it is under way */
};

/* What a driver tells the core, from dispatch or from an operation. */
typedef struct hf_host {
    void *ctx;
    /* The queue ahead of rid changed (NULL: perhaps of any of mine).  fresh,
     * where the push carries it: verdict and token. */
    void (*changed)(void *ctx, const hf_id *rid, const hf_place *fresh);
    /* My entry was broken or expired under me: a lost code. */
    void (*news)(void *ctx, const hf_id *rid, int reason);
    /* The connection, or the store's memory, is in doubt. */
    void (*doubt)(void *ctx, int reason, const char *text);
} hf_host;

typedef struct hf_url hf_url;
typedef struct hf_store hf_store; /* each driver defines its own */

typedef struct hf_driver {
    uint32_t abi, size;         /* HF_DRIVER_HEAD */
    const char *name;           /* "redis" */
    const char *schemes;        /* "redis rediss" */
    const char *const *options; /* query names it knows; NULL-terminated */
    /* A store from a URL (which lives during the call); must reach it.
     * *ret_caps: all it promises. */
    int (*open)(hf_store **ret, const hf_url *url, const hf_host *host,
                uint32_t *ret_caps, hf_error *err);
    void (*close)(hf_store *store);
    /* In a forked child: close descriptors, say nothing, free nothing. */
    void (*abandon)(hf_store *store);
    void (*start)(hf_store *store, hf_op *op);
    /* Do I/O on this thread until op is done.  NULL with HF_CAP_BLOCKING. */
    void (*drive)(hf_store *store, hf_op *op);
    /* Readable when dispatch has something to do; -1: never. */
    int (*fd)(hf_store *store);
    void (*dispatch)(hf_store *store);
    /* Sleep on this thread until the place may have changed, `until` passed or
     * unpark was called since its last join or recheck.  Both NULL: the core
     * sleeps by itself until dispatch tells.  unpark alone may be called with
     * locks of the core held: it must not block nor call back. */
    void (*park)(hf_store *store, const hf_place *place, hf_nsec until);
    void (*unpark)(hf_store *store, const hf_place *place);
    int (*life_fd)(hf_store *store); /* NULL: none; see hf_session_life_fd */
    /* Members from here on came later: a driver whose size ends before one does
     * not have it, and is as good as with NULL. */
    int (*ddl)(const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
               hf_error *err); /* NULL: needs no tables; see hf_ddl */
} hf_driver;
#define HF_DRIVER_HEAD .abi = HF_DRIVER_ABI, .size = sizeof(hf_driver)
/* The one symbol of a driver's shared object. */
HF_API const hf_driver *hf_driver_entry(void);
#define HF_DRIVER_EXPORT(driver)                                               \
    const hf_driver *hf_driver_entry(void)                                     \
    {                                                                          \
        return &(driver);                                                      \
    }                                                                          \
    extern const hf_driver *hf_driver_entry_(void)

/* ---- Helpers ------------------------------------------------------------- */

HF_API hf_nsec hfd_now(void);
HF_API int64_t hfd_realtime_us(void);
HF_API void hfd_random(void *buf, size_t len);
HF_API void *hfd_alloc(size_t size); /* zeroed; NULL: none left */
HF_API void *hfd_realloc(void *p, size_t size);
HF_API void hfd_free(void *p);
HF_API void hfd_log(hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fill *err (may be NULL); returns code. */
HF_API int hfd_error(hf_error *err, int code, const char *driver, int native,
                     const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Finish op: sets outcome and error, calls done. */
HF_API void hfd_finish(hf_op *op, hf_outcome outcome, int code);

/* One finding of HF_OP_PROBE: its text is one sentence, with the cure. */
HF_API void hfd_finding(hf_doctor_fn *emit, void *user, hf_level level,
                        const char *name, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

HF_API const char *hfd_url_scheme(const hf_url *url);
HF_API const char *hfd_url_user(const hf_url *url); /* "": none */
HF_API const char *hfd_url_password(const hf_url *url);
HF_API size_t hfd_url_host_count(const hf_url *url);
HF_API const char *hfd_url_host(const hf_url *url, size_t i);
HF_API uint16_t hfd_url_port(const hf_url *url, size_t i); /* 0: none */
HF_API const char *hfd_url_path(const hf_url *url);
HF_API const char *hfd_url_option(const hf_url *url, const char *name);
/* yes/no and numbers in a range; HF_EURL names the option. */
HF_API int hfd_url_flag(const hf_url *url, const char *name, bool *io,
                        hf_error *err);
HF_API int hfd_url_number(const hf_url *url, const char *name, int64_t min,
                          int64_t max, int64_t *io, hf_error *err);
/* For shims: open the driver of "fault+X:...": the part after '+'. */
HF_API int hfd_open_inner(const hf_driver **ret_driver, hf_store **ret,
                          const hf_url *url, const hf_host *host,
                          uint32_t *ret_caps, hf_error *err);

#ifdef __cplusplus
}
#endif
#endif
