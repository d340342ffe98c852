/* format.h - what the formats of other libraries share.
 *
 * `simple`, `spring` and `redisson` are the same machine with three layouts: a
 * lock is one key with an expiry of its own, whoever holds it is written in
 * it, and there is no queue.  A format_kind is the whole difference: three
 * scripts, made of a few Lua functions that know the layout and of bodies that
 * do not, the shape of an owner, and the channel on which a release is told.
 *
 * There is no session in the store and no place of a waiter: both are records
 * of this process alone (format_table.c). */
#ifndef HF_DRIVERS_REDIS_FORMAT_H
#define HF_DRIVERS_REDIS_FORMAT_H

#include <string.h>

#include "store.h"

enum {
    FORMAT_PREFIX_MAX = 256, /* what stands before a key */
    FORMAT_KEY_MAX = FORMAT_PREFIX_MAX + HF_KEY_MAX,
    FORMAT_OWNER_MAX = 48,
    FORMAT_CHANNEL_MAX = FORMAT_KEY_MAX + 64,
    FORMAT_SERVERS = 9, /* that may be asked together */
    FORMAT_BATCH = 100  /* places in one call of a renewal or a detach */
};

#define FORMAT_CAPS                                                            \
    (HF_CAP_MARKS | HF_CAP_FIXED_LEASE | HF_CAP_BREAK | HF_CAP_PUSH |          \
     HF_CAP_CLOCK | HF_CAP_EACH)

/* ---- Lua ----
 *
 * A layout is these functions of a key k:
 *   take(k, me, ms)   true if it was free and is mine now
 *   holds(k, me)      is it mine; nil: it is no lock of this layout
 *   close(k, me, ms)  mine no more, and yet taken, for so long
 *   drop(k)           delete, and wake those who wait
 *   owner(k)          who has it; nil: it is no lock
 *   token(k)          of the holder; 0: none
 * ARGV[1] belongs to the layout. */

/* Verbs: J take it if it is free, L look, X extend what is mine, D give it
 * back.  KEYS: lock and tomb of each place; ARGV: verb, owner, ms, life of a
 * tomb.  Answers the time, then code, ms left and token of each place. */
#define FORMAT_ACT                                                             \
    "local t = redis.call('TIME')\n"                                           \
    "local out = {t[1] * 1000000 + t[2]}\n"                                    \
    "for i = 1, #KEYS, 2 do\n"                                                 \
    "  local k, tomb, a = KEYS[i], KEYS[i + 1], i * 2\n"                       \
    "  local verb, me, ms, rest = ARGV[a], ARGV[a + 1], ARGV[a + 2],\n"        \
    "                             ARGV[a + 3]\n"                               \
    "  local code, left = 0, -2\n"                                             \
    "  if verb == 'J' and redis.call('EXISTS', tomb) == 1 then\n"              \
    "    code = 2\n"                                                           \
    "  elseif verb == 'J' and take(k, me, ms) then\n"                          \
    "    code, left = 1, tonumber(ms)\n"                                       \
    "  else\n"                                                                 \
    "    local mine = holds(k, me)\n"                                          \
    "    if verb == 'D' and rest ~= '0' then\n"                                \
    "      redis.call('SET', tomb, '1', 'PX', rest)\n"                         \
    "    end\n"                                                                \
    "    if mine == nil then\n"                                                \
    "      code = 3\n"                                                         \
    "    elseif not mine then\n"                                               \
    "      left = redis.call('PTTL', k)\n"                                     \
    "    elseif verb == 'D' then\n"                                            \
    "      code = 1\n"                                                         \
    "      if ms == '0' then drop(k) else close(k, me, ms) end\n"              \
    "    else\n"                                                               \
    "      code = 1\n"                                                         \
    "      if verb == 'X' then redis.call('PEXPIRE', k, ms) end\n"             \
    "      left = redis.call('PTTL', k)\n"                                     \
    "    end\n"                                                                \
    "  end\n"                                                                  \
    "  local n = #out\n"                                                       \
    "  out[n + 1], out[n + 2], out[n + 3] = code, left, token(k)\n"            \
    "end\n"                                                                    \
    "return out\n"

/* ARGV: cursor, pattern.  Answers the cursor, then key, owner, ms left and
 * token of each lock. */
#define FORMAT_ROWS                                                            \
    "local page = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT',\n"    \
    "                        200)\n"                                           \
    "local out = {page[1]}\n"                                                  \
    "for _, k in ipairs(page[2]) do\n"                                         \
    "  local who = not string.find(k, '^holdfast:tomb:') and\n"                \
    "              not string.find(k, '^holdfast:token:') and owner(k)\n"      \
    "  if who then\n"                                                          \
    "    local n = #out\n"                                                     \
    "    out[n + 1], out[n + 2] = k, who\n"                                    \
    "    out[n + 3], out[n + 4] = redis.call('PTTL', k), token(k)\n"           \
    "  end\n"                                                                  \
    "end\n"                                                                    \
    "return out\n"

/* ARGV: the token, 0 for any; a grant owns so many more than its own.  Answers
 * how many; -1: no lock. */
#define FORMAT_EVICT_RUN(spare)                                                \
    "local k = KEYS[1]\n"                                                      \
    "if redis.call('EXISTS', k) == 0 then return 0 end\n"                      \
    "if not owner(k) then return -1 end\n"                                     \
    "local over = ARGV[2] == '0' and 0 or tonumber(ARGV[2]) - token(k)\n"      \
    "if over < 0 or over > " spare " then return 0 end\n"                      \
    "drop(k)\n"                                                                \
    "return 1\n"
#define FORMAT_EVICT FORMAT_EVICT_RUN("0")

/* The layout of all who write their owner into a string.  SET with NX and PX
 * is one command: there is never a lock without its end.  What holds() meets
 * besides a string is a lock of another family. */
#define FORMAT_STRINGS                                                         \
    "local function holds(k, me)\n"                                            \
    "  local v = redis.pcall('GET', k)\n"                                      \
    "  if type(v) ~= 'table' then return v == me end\n"                        \
    "  if redis.call('TYPE', k)['ok'] == 'string' then error(v['err']) end\n"  \
    "  return nil\n"                                                           \
    "end\n"                                                                    \
    "local function take(k, me, ms)\n"                                         \
    "  return redis.call('SET', k, me, 'NX', 'PX', ms)\n"                      \
    "end\n"                                                                    \
    "local function close(k, me, ms)\n"                                        \
    "  redis.call('SET', k, 'kept:' .. me, 'PX', ms)\n"                        \
    "end\n"                                                                    \
    "local function owner(k)\n"                                                \
    "  if redis.call('TYPE', k)['ok'] ~= 'string' then return nil end\n"       \
    "  if redis.call('STRLEN', k) > 255 then return nil end\n"                 \
    "  return redis.call('GET', k)\n"                                          \
    "end\n"                                                                    \
    "local function token(k) return 0 end\n"

/* ---- What differs ---- */

typedef struct format_data format_data;

typedef struct format_kind {
    redis_script *act, *rows, *evict;
    uint32_t run;            /* tokens that a grant owns; 0: one, or none */
    bool dashes;             /* an owner looks like a UUID */
    const char *tail;        /* behind it */
    const char *kept_before; /* how an owner that closed it is written */
    const char *kept_tail;
    hf_nsec look_most;  /* between looks of a waiter, at most */
    hf_nsec look_least; /* not 0: by chance between this and that */
    bool patient; /* all peers tell a release: look when it must be over */
    /* The channel on which a release of this key is told; NULL: all keys
     * have the same ones, see `listen`. */
    size_t (*channel)(const format_data *data, const char *key, size_t len,
                      char *ret);
    /* Begin or end listening to what all keys share; NULL: nothing. */
    int (*listen)(hf_store *store, bool on);
    /* Which keys may this message be about?  At most two. */
    size_t (*told)(const format_data *data, const char *channel,
                   size_t channel_len, const char *text, size_t len,
                   const char *ret_keys[2], size_t ret_lens[2]);
} format_kind;

/* ---- Records of this process ---- */

typedef enum format_state {
    FORMAT_NEW = 0, /* asked for, not answered yet */
    FORMAT_WAITS,
    FORMAT_GRANTED
} format_state;

typedef struct format_record {
    struct format_record *next_rid, *next_key; /* in their slots */
    hf_id rid, sid;
    hf_nsec born;
    hf_nsec ends; /* of a fixed lease that runs, by our clock; else 0 */
    uint64_t num, token;
    uint32_t asking;  /* calls under way that may take it */
    uint16_t looks;   /* how often it was found busy */
    uint16_t key_len; /* of the whole key in the store */
    uint16_t given;   /* of several servers: which have given it back */
    uint16_t told;    /* the same: which have told of a release */
    uint16_t late;    /* the same: which were to forget a vote, and did not
                         answer; until when that counts: */
    hf_nsec late_until;
    uint16_t backs[FORMAT_SERVERS]; /* such commands under way */
    uint8_t state;                  /* format_state */
    bool stray;                     /* such a call had no answer */
    bool left;                      /* so had a leave */
    bool leaving; /* one was sent: no look may take it any more */
    bool listening;
    char key[];
} format_record;

typedef struct format_session {
    struct format_session *next;
    hf_id sid;
    hf_nsec ttl, ends; /* by our clock, unless renewed */
    char name[64];
} format_session;

struct format_data {
    const format_kind *kind;
    char prefix[FORMAT_PREFIX_MAX + 1]; /* before each key */
    size_t prefix_len;
    char extra[FORMAT_PREFIX_MAX + 1]; /* ARGV[1] of each script */
    bool fenced;
    /* Guards what follows.  Never held while the wire or the core is called;
     * encoders may take it. */
    pthread_mutex_t mu;
    format_session *sessions;
    format_record **by_rid, **by_key;
    size_t slots, count;
    bool listening; /* to what all keys share */
};

static inline format_data *format_of(const hf_store *store)
{
    return store->format_data;
}

/* format_table.c; all with data->mu held. */
format_record *format_find(format_data *data, const hf_id *rid);
/* A new one; NULL: no memory. */
format_record *format_add(format_data *data, const hf_place *place,
                          const hf_id *sid);
void format_insert(format_data *data, format_record *record); /* has room */
void format_unlink(format_data *data, format_record *record);
/* Up to n rids of those who wait for this key, or have just asked: a message
 * may overtake the answer. */
size_t format_waiters(format_data *data, const char *key, size_t len,
                      hf_id *ret, size_t n);
/* Of several servers this one has told of a release: those who wait for the
 * key and now were told by as many as they need. */
size_t format_told(format_data *data, const char *key, size_t len,
                   unsigned node, unsigned needed, hf_id *ret, size_t n);
format_session *format_session_of(format_data *data, const hf_id *sid);
format_session *format_session_add(format_data *data, const hf_id *sid);
void format_session_drop(format_data *data, const hf_id *sid);
void format_table_done(format_data *data);

/* format_common.c */
int format_open(hf_store *store, const hf_url *url, const format_kind *kind,
                hf_error *err);
int format_copy_option(const hf_url *url, const char *name, char *ret,
                       size_t room, hf_error *err);
void format_close(hf_store *store);
void format_start(hf_store *store, hf_op *op);
void format_message(hf_store *store, const char *channel, size_t channel_len,
                    const char *text, size_t len);
/* For format_kind.channel, where ours wake each other on a channel of their
 * own: this and the key. */
#define FORMAT_WAKE "holdfast:wake:"
size_t format_wake_channel(const format_data *data, const char *key, size_t len,
                           char *ret);
/* For format_kind.told, where a message is the key. */
size_t format_told_by_text(const format_data *data, const char *channel,
                           size_t channel_len, const char *text, size_t len,
                           const char *ret_keys[2], size_t ret_lens[2]);
size_t format_key(const format_data *data, const char *key, size_t len,
                  char ret[FORMAT_KEY_MAX]);
size_t format_owner(const format_kind *kind, const hf_id *rid,
                    char ret[FORMAT_OWNER_MAX]);
/* Is this text an owner of ours, or closed by one of ours? */
bool format_parse_owner(const format_kind *kind, const char *text, size_t len,
                        hf_id *ret, bool *ret_kept);
size_t format_tomb(const hf_id *rid, char ret[FORMAT_OWNER_MAX]);
int64_t format_ms(hf_nsec span); /* at least 1 */
/* For how long a place is asked for. */
int64_t format_lease_ms(const hf_op *op, const hf_place *place);
/* Begin to be told of releases of this key; and end it. */
int format_listen(hf_store *store, const char *key, size_t len);
void format_unlisten(hf_store *store, const char *key, size_t len);
/* Finish op: applied, with what the session has left. */
void format_finish(hf_store *store, hf_op *op);
/* The reply is not what the script answers. */
void format_nonsense(hf_op *op);

/* ---- Calls of `act` ---- */

typedef struct format_item {
    const hf_id *rid;
    const char *key;
    size_t key_len;
    bool whole; /* with its prefix */
    char verb;
    int64_t ms, tomb_ms;
} format_item;
void format_put(const format_data *data, const redis_call *call, hf__buf *out,
                const format_item *items, size_t n);

typedef enum format_code {
    FORMAT_BUSY = 0, /* not mine */
    FORMAT_MINE,
    FORMAT_DEAD,  /* a tomb */
    FORMAT_ALIEN, /* no lock of this layout */
    FORMAT_OPEN,  /* nobody can say now: of a renewal by several servers */
    FORMAT_YOUNG  /* nobody's, and not to be had yet: of several servers too
                     many may have forgotten who has it */
} format_code;

typedef struct format_answer {
    format_code code;
    int64_t left_ms; /* -1: for ever; -2: nobody has it */
    uint64_t token;
} format_answer;
/* Milliseconds that are left, as a server says them, which may be a time that
 * nobody can count with: a peer may write any. */
static inline int64_t format_left(const resp *at)
{
    int64_t left_ms = resp_int(at, -2);

    return left_ms < -2 ? -2 : left_ms < HF_MS_MAX ? left_ms : HF_MS_MAX;
}
/* Check a reply of n places, answer its time; 0: nonsense. */
int64_t format_read(const resp *reply, size_t n);
format_answer format_next(resp *at); /* walks; at begins as the time */

/* ---- Operations ---- */

/* The verb of a place in an operation lies in the low byte of own[1]; '-': it
 * is passed over. */
static inline char format_verb(const hf_place *place)
{
    return (char)(place->own[1] & 0x7f);
}
static inline void format_set_verb(hf_place *place, char verb)
{
    place->own[1] = (place->own[1] & ~UINT64_C(0xff)) | (unsigned char)verb;
}

/* When op's call went out; one that never did leaves the instant of asking. */
static inline void format_note_sent(hf_op *op)
{
    if (redis_op_of(op)->call.sent > 0)
        op->sent = redis_op_of(op)->call.sent;
}

/* format_ops.c */
void format_encode(redis_call *call, hf__buf *out, const redis_server *server);
/* How many places are in the batch that begins at the note; *ret_next: where
 * the next one does. */
size_t format_batch(hf_op *op, size_t *ret_next);
void format_answer_gone(hf_place *place, int reason);
/* With data->mu held, both.  Where locks have numbers, one that never had any
 * is no grant. */
void format_doubt_grant(const format_data *data, const format_record *record,
                        format_answer *answer);
void format_answer_granted(const format_data *data, hf_op *op, hf_place *place,
                           format_record *record, const format_answer *answer);
/* Take record out of the table, for format_dispose without the lock. */
format_record *format_take_out(format_data *data, format_record *record);
void format_dispose(hf_store *store, format_record *record); /* NULL: none */
void format_join(hf_store *store, hf_op *op);
void format_recheck(hf_store *store, hf_op *op);
/* format_leave.c */
void format_confirm(hf_store *store, hf_op *op);
void format_leave(hf_store *store, hf_op *op);
/* format_session.c */
void format_attach(hf_store *store, hf_op *op);
void format_renew(hf_store *store, hf_op *op);
void format_detach(hf_store *store, hf_op *op);
/* format_list.c */
void format_list(hf_store *store, hf_op *op);
void format_evict(hf_store *store, hf_op *op);
void format_probe(hf_store *store, hf_op *op);

#endif
