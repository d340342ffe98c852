/* holdfast.h - locks that hold across processes and machines.
 *
 *     hf_session *s;  hf_hold *hold;  hf_error err;
 *
 *     if (hf_open(&s, "sqlite:/var/lib/app/locks.db", NULL, &err) != 0)
 *         die(err.text);
 *     if (hf_lock(s, "/invoice/pay/4587", NULL, &hold, &err) == 0) {
 *         pay(invoice, hf_hold_token(hold));
 *         hf_release(hold, &err);
 *     }
 *     hf_close(s);
 *
 * A *session* is this process's membership in a store; its *lease* is renewed
 * by one background thread, however many locks are held.  A *key* names a
 * resource, 1 to 1000 bytes, any byte but NUL.  A *hold* is a lock you have;
 * its *token* is a number that rises with every grant of that key, for ever:
 * hand it to what the lock protects and let that refuse smaller ones.
 *
 * Rules that hold for every function here:
 * - 0 is success, a negative HF_E... code is failure; outputs are written on
 *   success only, *err (which may be NULL) on failure only.
 * - Any thread may call anything, except where ownership of a hold says no.
 * - Times are milliseconds; a negative or absurd one is HF_EINVAL.
 * - Handles are numbers in disguise: a call on one that was released, closed
 *   or collected answers HF_ENOTHELD, HF_ECLOSED or HF_EINVAL; it never
 *   crashes.
 * - After fork() the child's inherited sessions answer HF_EFORKED and never
 *   touch the parent's locks; the child opens its own.
 * - Nothing is safe in a signal handler, but for a write to your cancel_fd. */
#ifndef HOLDFAST_HOLDFAST_H
#define HOLDFAST_HOLDFAST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_API __attribute__((visibility("default")))

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION_TEXT "0.1.0"

#define HF_KEY_MAX 1000   /* bytes of a key */
#define HF_VALUE_MAX 1024 /* bytes of a value */
#define HF_FOREVER INT64_MAX
#define HF_MS_MAX (INT64_C(1000) * 86400 * 3650) /* the longest other time */

typedef struct hf_session hf_session;
typedef struct hf_hold hf_hold;
typedef struct hf_request hf_request;

/* ---- Errors ---------------------------------------------------------- */

/* X(name, number, class, text).  The class says what the caller does. */
#define HF_ERROR_MAP(X)                                                        \
    X(EBUSY, -1, NO, "held by another")                                        \
    X(ETIMEDOUT, -2, NO, "not granted in time")                                \
    X(ECANCELED, -3, NO, "cancelled")                                          \
    X(EDEADLK, -4, NO, "would wait for itself")                                \
    X(EFULL, -5, NO, "a limit is reached")                                     \
    X(EEXPIRED, -10, LOST, "the lease ran out")                                \
    X(ETAKEN, -11, LOST, "taken by another")                                   \
    X(EFORCED, -12, LOST, "broken by an operator")                             \
    X(EFENCED, -13, LOST, "a newer token was seen")                            \
    X(EUNKNOWN, -20, UNKNOWN, "done or not, nobody can say")                   \
    X(EUNAVAIL, -30, RETRY, "the store cannot be reached")                     \
    X(EQUORUM, -31, RETRY, "too few servers answered")                         \
    X(EQUARANTINE, -32, RETRY, "the store may have forgotten locks")           \
    X(EINVAL, -40, CALLER, "an argument is wrong")                             \
    X(ENOTHELD, -41, CALLER, "not held (any more)")                            \
    X(EOWNER, -42, CALLER, "held by another owner of this process")            \
    X(EFORKED, -43, CALLER, "the session belongs to the parent process")       \
    X(ECLOSED, -44, CALLER, "the session is closed")                           \
    X(ENOTSUP, -45, CALLER, "this store cannot do that")                       \
    X(EKIND, -46, CALLER, "in use as another kind of lock")                    \
    X(EURL, -50, SETUP, "the store's URL is wrong")                            \
    X(EDRIVER, -51, SETUP, "no usable driver")                                 \
    X(EAUTH, -52, SETUP, "the store refused the credentials")                  \
    X(EPERM, -53, SETUP, "not permitted")                                      \
    X(EPROTO, -54, SETUP, "the store's data or protocol is not ours")          \
    X(ENOMEM, -60, FATAL, "out of memory")                                     \
    X(EINTERNAL, -61, FATAL, "a bug in holdfast")

#define HF_ERROR_ENUM(name, number, class_, text) HF_##name = number,
typedef enum hf_code { HF_OK = 0, HF_ERROR_MAP(HF_ERROR_ENUM) } hf_code;

typedef enum hf_class {
    HF_CLASS_OK = 0,
    HF_CLASS_NO,      /* an answer, not a fault: carry on */
    HF_CLASS_LOST,    /* stop touching what the lock protects */
    HF_CLASS_UNKNOWN, /* treat as possibly done */
    HF_CLASS_RETRY,   /* later */
    HF_CLASS_CALLER,  /* fix the call */
    HF_CLASS_SETUP,   /* fix the set-up */
    HF_CLASS_FATAL    /* close the session */
} hf_class;

/* Detail of a failure, in the caller's memory. */
typedef struct hf_error {
    int32_t code;    /* what the function returned */
    int32_t native;  /* the store's own number, or errno; 0 is none */
    char driver[16]; /* which driver said it; "" is the core */
    char text[232];  /* one line, names the thing and the cure */
} hf_error;

HF_API const char *hf_strerror(int code);
HF_API const char *hf_error_name(int code); /* "HF_EBUSY" */
HF_API hf_class hf_error_class(int code);
HF_API const char *hf_version(void);

/* ---- Sessions -------------------------------------------------------- */

typedef struct hf_open_options {
    size_t size;          /* HF_OPEN_OPTIONS */
    int64_t lease_ms;     /* how long a crash can go unnoticed; 0: 30 000 */
    const char *name;     /* who you are, shown by hf_list; NULL: program */
    uint32_t max_waiters; /* more requests at once: HF_EFULL; 0: 10 000 */
} hf_open_options;
#define HF_OPEN_OPTIONS .size = sizeof(hf_open_options)

/* Open a store: "sqlite:PATH", "mem:NAME", ...; NULL takes $HOLDFAST_URL, or
 * a file in the user's state folder.  Reaches the store, takes no lock.
 * Expect HF_EURL, HF_EDRIVER, HF_EAUTH, HF_EPERM, HF_EPROTO, HF_EUNAVAIL. */
HF_API int hf_open(hf_session **ret, const char *url,
                   const hf_open_options *opt, hf_error *err);

/* Release every hold (the last taken first), end every wait with HF_ECLOSED,
 * join the threads, free the session.  Blocks at most for one attempt at the
 * store.  Other threads may be inside calls on s; they return HF_ECLOSED.
 * NULL is allowed.  In a forked child: only closes its descriptors. */
HF_API void hf_close(hf_session *s);

/* The URL as opened, without secrets.  Valid until hf_close. */
HF_API const char *hf_session_url(const hf_session *s);

/* What this store promises (docs/guarantees.md). */
enum {
    HF_CAP_FIFO = 1 << 0,          /* first come, first served */
    HF_CAP_TOKEN = 1 << 1,         /* fencing tokens */
    HF_CAP_PUSH = 1 << 2,          /* waiters are woken, not polling */
    HF_CAP_SHARED = 1 << 3,        /* shared locks */
    HF_CAP_PERMIT = 1 << 4,        /* locks with places */
    HF_CAP_FIXED_LEASE = 1 << 5,   /* lease_ms */
    HF_CAP_VALUE = 1 << 6,         /* values on holds */
    HF_CAP_BREAK = 1 << 7,         /* force-unlock */
    HF_CAP_LINEARIZABLE = 1 << 8,  /* never two holders (class C), however the
                                      store is set up */
    HF_CAP_FAILOVER_SAFE = 1 << 9, /* a failover forgets nothing, likewise */
    HF_CAP_CRASH_AT_ONCE = 1 << 10 /* a dead process frees at once */
};
HF_API uint32_t hf_session_caps(const hf_session *s);

/* A descriptor that, while any process has it open, says "still alive" to a
 * store that notices crashes at once; -1: none.  For a process that passes
 * its locks to a child, as flock(1) does.  The session owns it. */
HF_API int hf_session_life_fd(const hf_session *s);

/* Counted since hf_open. */
typedef struct hf_stats {
    uint64_t joins, leaves, renewals, rechecks; /* round trips by purpose */
    uint64_t handovers;                         /* passed on without one */
    uint64_t holds, waiters;                    /* now */
    uint64_t reserved[9];                       /* 0 */
} hf_stats;
HF_API int hf_session_stats(const hf_session *s, hf_stats *ret);

/* ---- Taking a lock --------------------------------------------------- */

typedef enum hf_mode {
    HF_EXCLUSIVE = 0,
    HF_SHARED = 1,
    HF_PERMIT = 2 /* one of `places` */
} hf_mode;

typedef enum hf_state {
    HF_HELD = 1,
    HF_DOUBTFUL, /* still yours by arithmetic, but a renewal failed */
    HF_LOST,     /* for good */
    HF_RELEASED
} hf_state;

/* Told on the session's callback thread when a hold's state changes; reason
 * is an HF_E... code, or 0 when doubt was lifted.  May call anything but
 * hf_close.  The hold may already be released when you hear of it. */
typedef void hf_change_fn(hf_hold *hold, hf_state state, int reason,
                          void *user);

/* Who may take the lock again without waiting, and who may release it. */
#define HF_OWNER_DEFAULT UINT64_C(0)     /* THREAD; in hf_lock_start: HOLD */
#define HF_OWNER_THREAD (UINT64_MAX - 1) /* the calling thread */
#define HF_OWNER_HOLD UINT64_MAX         /* this hold alone: not re-entrant */
/* Any other number below 2^63: a task or request of yours. */

typedef struct hf_lock_options {
    size_t size;         /* HF_LOCK_OPTIONS */
    int64_t wait_ms;     /* 0, the default: do not wait; HF_FOREVER */
    hf_mode mode;        /* HF_EXCLUSIVE unless you say otherwise */
    uint32_t places;     /* of HF_PERMIT; the same for all users of a key */
    int64_t lease_ms;    /* >= 100: ends then, renewed only by hf_renew, and
                            outlives a process that dies (not hf_close) */
    int64_t at_most_ms;  /* > 0: a renewed hold is lost after this long */
    int64_t at_least_ms; /* > 0: stays taken this long, even if released */
    uint64_t owner;      /* HF_OWNER_... or your number */
    const void *value;   /* shown to others with the hold (copied) */
    size_t value_len;
    int cancel_fd;           /* > 0: readable ends the wait, HF_ECANCELED */
    hf_change_fn *on_change; /* doubt, relief, loss */
    void *user;              /* for on_change */
} hf_lock_options;
#define HF_LOCK_OPTIONS .size = sizeof(hf_lock_options)

/* Take `key`.  Blocks; opt NULL: exclusive, for this thread, waits for ever.
 * Taken again by its owner, alone or shared: no round trip, same token, a
 * handle of its own to be released in its turn (permits are never re-entrant).
 * A wait bears with a store that is away, for a lease; then HF_EUNAVAIL.  On
 * success *ret is yours until hf_release.
 * Expect HF_EBUSY (wait_ms 0), HF_ETIMEDOUT, HF_ECANCELED, HF_EDEADLK (you
 * hold it shared and want it alone), HF_EFULL, HF_EKIND, HF_EFORCED,
 * HF_EUNAVAIL, HF_ENOTSUP, HF_EINVAL; the lost code when a hold of this owner
 * on this key is lost and not yet released. */
HF_API int hf_lock(hf_session *s, const char *key, const hf_lock_options *opt,
                   hf_hold **ret, hf_error *err);

/* hf_lock that does not wait (opt->wait_ms is ignored).  Never overtakes one
 * who waits. */
HF_API int hf_try_lock(hf_session *s, const char *key,
                       const hf_lock_options *opt, hf_hold **ret,
                       hf_error *err);

/* hf_lock with mode HF_SHARED: together with other shared holders. */
HF_API int hf_lock_shared(hf_session *s, const char *key,
                          const hf_lock_options *opt, hf_hold **ret,
                          hf_error *err);

/* hf_lock with mode HF_PERMIT: one of `places`.  Tokens identify, they do not
 * fence: several are current at once. */
HF_API int hf_lock_permit(hf_session *s, const char *key, uint32_t places,
                          const hf_lock_options *opt, hf_hold **ret,
                          hf_error *err);

/* The number that HF_OWNER_THREAD stands for in this thread, for
 * hf_cancel_owner called from another. */
HF_API uint64_t hf_owner_self(void);

/* End every wait of this owner with HF_ECANCELED.  A wait that was granted at
 * the same instant returns its hold.  Returns how many were ended, or an error
 * code. */
HF_API int hf_cancel_owner(hf_session *s, uint64_t owner);

/* ---- While you hold it ----------------------------------------------- */

/* 0 while it is held, else why not: a lost code, HF_ENOTHELD, or HF_EUNKNOWN
 * while the clock is in doubt.  Reads the clock, not the store: never blocks,
 * and never says 0 once another could have been granted. */
HF_API int hf_hold_check(hf_hold *hold, hf_error *err);
HF_API hf_state hf_hold_state(hf_hold *hold);
HF_API uint64_t hf_hold_token(hf_hold *hold);       /* 0: none */
HF_API int64_t hf_hold_remaining_ms(hf_hold *hold); /* until LOST; >= 0 */

/* Readable from LOST on; made at the first call, closed by the release.  Poll
 * it, do not read it.  A negative code on failure. */
HF_API int hf_hold_fd(hf_hold *hold);

/* The value last published; copies at most cap bytes, *ret_len is its whole
 * length. */
HF_API int hf_hold_value(hf_hold *hold, void *buf, size_t cap, size_t *ret_len);

/* Show another value with the hold.  Blocks for a round trip. */
HF_API int hf_publish(hf_hold *hold, const void *value, size_t len,
                      hf_error *err);

/* Ask the store now: lengthens a fixed lease by its lease_ms, else renews the
 * session.  0: held, and was all the time.  Blocks for a round trip. */
HF_API int hf_renew(hf_hold *hold, hf_error *err);

/* Give it back; only its owner may.  Blocks for a round trip, two attempts at
 * the most where no answer comes.
 * 0: it was yours all the time.  A lost code: others may have run since; undo
 * or check by token.  HF_EUNKNOWN: yours until this call, but the answer is
 * missing; the store frees it with the lease at the latest.
 * HF_EOWNER, HF_ENOTHELD, HF_EFORKED: nothing was done.  In all other cases
 * the handle is spent. */
HF_API int hf_release(hf_hold *hold, hf_error *err);

/* hf_with_lock (s, &opt, &err, "/invoice/pay/%d", id) { ... hf_held ... }
 * The body runs once, only if the lock was taken, with its hold as `hf_held`;
 * it is released on every way out (break, return, goto).  err (not NULL) has
 * code 0 if all went well, else why the body did not run or how the hold was
 * lost in it.  One inside another is fine; -Wshadow remarks on `hf_held`. */
typedef struct hf_scope {
    hf_hold *hold;
    hf_error *err;
} hf_scope;
HF_API hf_scope hf_scope_begin(hf_session *s, const hf_lock_options *opt,
                               hf_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
HF_API void hf_scope_end(hf_scope *scope);
#define hf_with_lock(s, opt, err, ...)                                         \
    for (hf_scope hf_scope_ __attribute__((cleanup(hf_scope_end))) =           \
             hf_scope_begin((s), (opt), (err), __VA_ARGS__),                   \
                            *hf_once_ = &hf_scope_;                            \
         hf_once_ != NULL && hf_scope_.hold != NULL; hf_once_ = NULL)          \
        for (hf_hold *hf_held = hf_scope_.hold; hf_held != NULL; hf_held = NULL)

/* ---- Event loops ----------------------------------------------------- */

/* Each blocking call above has a form that only starts it; `user` comes back
 * with the result.  HF_OWNER_THREAD is refused here: a loop's thread is nobody
 * in particular.  None of these blocks. */
HF_API int hf_lock_start(hf_session *s, const char *key,
                         const hf_lock_options *opt, void *user,
                         hf_request **ret, hf_error *err);
HF_API int hf_release_start(hf_hold *hold, void *user, hf_request **ret,
                            hf_error *err);
HF_API int hf_renew_start(hf_hold *hold, void *user, hf_request **ret,
                          hf_error *err);
HF_API int hf_publish_start(hf_hold *hold, const void *value, size_t len,
                            void *user, hf_request **ret, hf_error *err);

/* Ask a started lock to end.  It is still collected once: with its hold if the
 * grant came first, else with HF_ECANCELED. */
HF_API int hf_cancel(hf_request *request, hf_error *err);

typedef enum hf_result_kind {
    HF_RESULT_LOCK = 1,
    HF_RESULT_RELEASE,
    HF_RESULT_RENEW,
    HF_RESULT_PUBLISH,
    HF_RESULT_CHANGE /* a hold taken by hf_lock_start changed its state */
} hf_result_kind;

typedef struct hf_result {
    hf_result_kind kind;
    hf_request *request; /* spent; NULL for HF_RESULT_CHANGE */
    hf_hold *hold;       /* the hold concerned; NULL where there is none */
    hf_state state;      /* of the hold, for HF_RESULT_CHANGE */
    void *user;
    hf_error error;       /* code 0: done */
    uint64_t reserved[4]; /* 0 */
} hf_result;

/* Readable while hf_collect would return 1; the session owns it.  Made at the
 * first call; a negative code on failure. */
HF_API int hf_session_fd(hf_session *s);

/* Take the next result.  1: *ret is filled.  0: nothing now.  Negative: the
 * session is forked or closed.  Every started request is collected once. */
HF_API int hf_collect(hf_session *s, hf_result *ret);

/* ---- Operators ------------------------------------------------------- */

typedef struct hf_entry_info {
    const char *key; /* NUL-terminated; strings live during the callback */
    size_t key_len;
    hf_mode mode;
    uint32_t places;      /* of a permit */
    bool granted;         /* holds, else waits */
    bool mine;            /* of this session */
    bool broken;          /* hf_break is under way */
    bool closed;          /* released, kept by at_least_ms */
    uint64_t number;      /* its place in the queue */
    uint64_t token;       /* 0 while it waits */
    int64_t pid;          /* 0: unknown */
    const char *host;     /* "": unknown */
    const char *name;     /* hf_open_options.name of its session */
    int64_t age_ms;       /* since it joined; -1: unknown */
    int64_t remaining_ms; /* of its lease, unless renewed; -1: unknown */
    const void *value;
    size_t value_len;
} hf_entry_info;

/* Call fn for each entry whose key begins with prefix (NULL: all), queue by
 * queue in the queue's order.  fn returns 0 to go on; another value ends the
 * listing and is returned.  Blocks.  fn must not call on this session. */
typedef int hf_list_fn(const hf_entry_info *entry, void *user);
HF_API int hf_list(hf_session *s, const char *prefix, hf_list_fn *fn,
                   void *user, hf_error *err);

typedef struct hf_break_options {
    size_t size;    /* HF_BREAK_OPTIONS */
    uint64_t token; /* only the hold with this token; 0: every holder */
    bool now;       /* pass it on at once: the old holder may still act, only
                       its token protects.  Else: once it has left or, if it
                       does not answer, a lease later. */
} hf_break_options;
#define HF_BREAK_OPTIONS .size = sizeof(hf_break_options)

/* Take the lock away from who holds it, as an operator.  He is told HF_EFORCED
 * with his next renewal, a third of a lease later at most.  *ret_broken (may be
 * NULL): how many holds were marked or removed; 0 is success too.  Blocks. */
HF_API int hf_break(hf_session *s, const char *key, const hf_break_options *opt,
                    uint32_t *ret_broken, hf_error *err);

typedef enum hf_level { HF_FINE = 0, HF_WARN = 1, HF_FAIL = 2 } hf_level;

/* Is this store fit to hold locks?  Calls fn for each finding; name is one
 * word, text a sentence with the cure.  Blocks. */
typedef void hf_doctor_fn(hf_level level, const char *name, const char *text,
                          void *user);
HF_API int hf_doctor(hf_session *s, hf_doctor_fn *fn, void *user,
                     hf_error *err);

/* What a database must have before a store without create=yes is opened there:
 * calls fn with each line.  Of url only scheme and options are looked at, since
 * whoever may make tables often may not, or need not, reach the locks.  guard:
 * instead what refuses a write with an old token.  HF_ENOTSUP: needs nothing.
 */
typedef void hf_ddl_fn(const char *line, void *user);
HF_API int hf_ddl(const char *url, bool guard, hf_ddl_fn *fn, void *user,
                  hf_error *err);

/* ---- The library ----------------------------------------------------- */

typedef enum hf_log_level {
    HF_LOG_ERROR = 0,
    HF_LOG_WARN,
    HF_LOG_INFO,
    HF_LOG_DEBUG
} hf_log_level;

/* The library prints nothing; it tells fn.  Set before the first hf_open.  A
 * busy lock is never logged. */
typedef void hf_log_fn(hf_log_level level, const char *line, void *user);
HF_API void hf_set_log(hf_log_fn *fn, void *user, hf_log_level most);

/* Replace the allocator; before the first hf_open.  realloc(p, 0) frees. */
typedef void *hf_realloc_fn(void *p, size_t size, void *user);
HF_API void hf_set_alloc(hf_realloc_fn *fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
