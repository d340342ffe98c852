/* format_common.c - keys, owners, channels and options of the peers' formats.
 *
 * Answers how a place of ours is written in a store that other libraries use,
 * and passes operations and messages on.  Knows nothing of layouts (their Lua
 * and their names are in format_simple.c, format_spring.c, format_redisson.c).
 *
 * An owner is made of the rid alone.  So a join that is repeated finds itself,
 * a leave needs no session, no two entries of ours ever look like one owner
 * that re-enters, and a listing can tell ours from a peer's.
 *
 * A message wakes; it proves nothing.  Whoever is woken asks the store. */
#include "format.h"

#include <stdio.h>

/* ---- Names -------------------------------------------------------------- */

size_t format_key(const format_data *data, const char *key, size_t len,
                  char ret[FORMAT_KEY_MAX])
{
    if (len > HF_KEY_MAX)
        len = HF_KEY_MAX;
    memcpy(ret, data->prefix, data->prefix_len);
    if (len > 0)
        memcpy(ret + data->prefix_len, key, len);
    return data->prefix_len + len;
}

size_t format_owner(const format_kind *kind, const hf_id *rid,
                    char ret[FORMAT_OWNER_MAX])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};
    const uint8_t *from = rid->bytes;
    size_t tail = strlen(kind->tail);
    char *at = ret;

    for (size_t i = 0; i < sizeof groups; i++) {
        if (i > 0 && kind->dashes)
            *at++ = '-';
        at = redis_put_hex(at, from, groups[i]);
        from += groups[i];
    }
    memcpy(at, kind->tail, tail);
    return (size_t)(at - ret) + tail;
}

/* Written anew from what was read it must be the same text. */
static bool parse_exactly(const format_kind *kind, const char *text, size_t len,
                          hf_id *ret)
{
    char again[FORMAT_OWNER_MAX];
    size_t digits = 0;

    for (size_t i = 0; i < len && digits < 32; i++) {
        int digit = redis_hex_digit(text[i]);

        if (digit < 0)
            continue;
        if (digits % 2 == 0)
            ret->bytes[digits / 2] = (uint8_t)(digit << 4);
        else
            ret->bytes[digits / 2] |= (uint8_t)digit;
        digits++;
    }
    return digits == 32 && format_owner(kind, ret, again) == len &&
           memcmp(again, text, len) == 0;
}

bool format_parse_owner(const format_kind *kind, const char *text, size_t len,
                        hf_id *ret, bool *ret_kept)
{
    format_kind closed = *kind;
    size_t before = strlen(kind->kept_before);

    *ret_kept = false;
    if (parse_exactly(kind, text, len, ret))
        return true;
    closed.tail = kind->kept_tail;
    *ret_kept = len > before && memcmp(text, kind->kept_before, before) == 0 &&
                parse_exactly(&closed, text + before, len - before, ret);
    return *ret_kept;
}

size_t format_tomb(const hf_id *rid, char ret[FORMAT_OWNER_MAX])
{
    static const char name[] = "holdfast:tomb:";

    memcpy(ret, name, sizeof name - 1);
    return (size_t)(redis_put_hex(ret + sizeof name - 1, rid->bytes, 16) - ret);
}

int64_t format_ms(hf_nsec span)
{
    return span >= HF_MS(1) ? span / HF_MS(1) : 1;
}

int64_t format_lease_ms(const hf_op *op, const hf_place *place)
{
    return format_ms(place->lease > 0 ? place->lease : op->ttl);
}

/* ---- Calls -------------------------------------------------------------- */

void format_put(const format_data *data, const redis_call *call, hf__buf *out,
                const format_item *items, size_t n)
{
    char text[FORMAT_KEY_MAX];
    size_t len;

    resp_script(out, call, data->kind->act, (unsigned)(2 * n),
                (unsigned)(6 * n + 1));
    for (size_t i = 0; i < n; i++) {
        if (items[i].whole) {
            resp_word(out, items[i].key, items[i].key_len);
        } else {
            len = format_key(data, items[i].key, items[i].key_len, text);
            resp_word(out, text, len);
        }
        len = format_tomb(items[i].rid, text);
        resp_word(out, text, len);
    }
    resp_text(out, data->extra);
    for (size_t i = 0; i < n; i++) {
        resp_word(out, &items[i].verb, 1);
        len = format_owner(data->kind, items[i].rid, text);
        resp_word(out, text, len);
        resp_number(out, items[i].ms);
        resp_number(out, items[i].tomb_ms);
    }
}

int64_t format_read(const resp *reply, size_t n)
{
    resp time;

    if (reply->type != RESP_ARRAY || reply->number != (int64_t)(3 * n + 1))
        return 0;
    time = resp_item(reply, 0);
    return resp_int(&time, 0);
}

format_answer format_next(resp *at)
{
    format_answer answer = {.code = FORMAT_BUSY};
    int64_t code;

    *at = resp_at(at->after);
    code = resp_int(at, FORMAT_BUSY);
    if (code >= FORMAT_MINE && code <= FORMAT_YOUNG)
        answer.code = (format_code)code;
    *at = resp_at(at->after);
    answer.left_ms = format_left(at);
    *at = resp_at(at->after);
    code = resp_int(at, 0);
    answer.token = code > 0 ? (uint64_t)code : 0;
    return answer;
}

void format_finish(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    const format_session *session;

    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    op->remaining =
        session && session->ends > op->sent ? session->ends - op->sent : 0;
    pthread_mutex_unlock(&data->mu);
    hfd_finish(op, HF_APPLIED, 0);
}

void format_nonsense(hf_op *op)
{
    hf_error why;

    hfd_error(&why, HF_EPROTO, "redis", 0,
              "the server's answer to a script is not what the script says");
    redis_op_failed(op, HF_UNKNOWN, &why);
}

/* ---- Listening ---------------------------------------------------------- */

int format_listen(hf_store *store, const char *key, size_t len)
{
    format_data *data = format_of(store);
    char channel[FORMAT_CHANNEL_MAX];
    bool first;
    int code;

    if (data->kind->channel)
        return redis_hear(store, channel,
                          data->kind->channel(data, key, len, channel), true);
    pthread_mutex_lock(&data->mu);
    first = !data->listening;
    data->listening = true;
    pthread_mutex_unlock(&data->mu);
    code = first ? data->kind->listen(store, true) : 0;
    if (code) {
        pthread_mutex_lock(&data->mu);
        data->listening = false;
        pthread_mutex_unlock(&data->mu);
    }
    return code;
}

/* What all keys share is listened to until the store is closed. */
void format_unlisten(hf_store *store, const char *key, size_t len)
{
    format_data *data = format_of(store);
    char channel[FORMAT_CHANNEL_MAX];

    if (data->kind->channel)
        redis_hear(store, channel, data->kind->channel(data, key, len, channel),
                   false);
}

size_t format_wake_channel(const format_data *data, const char *key, size_t len,
                           char *ret)
{
    (void)data;
    memcpy(ret, FORMAT_WAKE, sizeof FORMAT_WAKE - 1);
    memcpy(ret + sizeof FORMAT_WAKE - 1, key, len);
    return sizeof FORMAT_WAKE - 1 + len;
}

size_t format_told_by_text(const format_data *data, const char *channel,
                           size_t channel_len, const char *text, size_t len,
                           const char *ret_keys[2], size_t ret_lens[2])
{
    (void)data;
    (void)channel;
    (void)channel_len;
    ret_keys[0] = text;
    ret_lens[0] = len;
    return 1;
}

/* The core has at most one place per key that waits; the rest of a crowd is
 * found by its timed looks. */
static void wake_key(hf_store *store, const char *key, size_t len)
{
    format_data *data = format_of(store);
    hf_id rids[16];
    size_t n;

    pthread_mutex_lock(&data->mu);
    n = format_waiters(data, key, len, rids, sizeof rids / sizeof *rids);
    pthread_mutex_unlock(&data->mu);
    for (size_t i = 0; i < n; i++) {
        redis_ring(store, &rids[i]);
        store->host.changed(store->host.ctx, &rids[i], NULL);
    }
}

void format_message(hf_store *store, const char *channel, size_t channel_len,
                    const char *text, size_t len)
{
    const format_data *data = format_of(store);
    const char *keys[2];
    size_t lens[2];
    size_t n =
        data->kind->told(data, channel, channel_len, text, len, keys, lens);

    for (size_t i = 0; i < n; i++)
        wake_key(store, keys[i], lens[i]);
}

/* ---- The store ---------------------------------------------------------- */

int format_copy_option(const hf_url *url, const char *name, char *ret,
                       size_t room, hf_error *err)
{
    const char *text = hfd_url_option(url, name);
    size_t len = text ? strlen(text) : 0;

    if (len >= room)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "the option '%s' has %zu bytes, at most %zu are taken",
                         name, len, room - 1);
    if (len > 0)
        memcpy(ret, text, len);
    ret[len] = '\0';
    return 0;
}

/* Scripts are shared by all stores of this process. */
static void ready_scripts(const format_kind *kind)
{
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    redis_script *scripts[] = {kind->act, kind->rows, kind->evict};

    pthread_mutex_lock(&mu);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (scripts[i]->sha[0] == '\0')
            redis_script_ready(scripts[i]);
    }
    pthread_mutex_unlock(&mu);
}

int format_open(hf_store *store, const hf_url *url, const format_kind *kind,
                hf_error *err)
{
    format_data *data = hfd_alloc(sizeof *data);
    int code;

    if (!data)
        return hfd_error(err, HF_ENOMEM, "redis", 0, "out of memory");
    ready_scripts(kind);
    data->kind = kind;
    code = format_copy_option(url, "prefix", data->prefix,
                              sizeof data->prefix / 2, err);
    if (code) {
        hfd_free(data);
        return code;
    }
    data->prefix_len = strlen(data->prefix);
    pthread_mutex_init(&data->mu, NULL);
    store->format_data = data;
    return 0;
}

void format_close(hf_store *store)
{
    format_data *data = format_of(store);

    if (!data)
        return;
    format_table_done(data);
    pthread_mutex_destroy(&data->mu);
    hfd_free(data);
    store->format_data = NULL;
}

void format_start(hf_store *store, hf_op *op)
{
    op->outcome = HF_UNKNOWN;
    op->error.code = 0;
    op->sent = hfd_now();
    op->remaining = 0;
    op->store_us = 0;
    op->count = 0;
    switch (op->kind) {
    case HF_OP_ATTACH:
        format_attach(store, op);
        break;
    case HF_OP_RENEW:
        format_renew(store, op);
        break;
    case HF_OP_DETACH:
        format_detach(store, op);
        break;
    case HF_OP_JOIN:
        format_join(store, op);
        break;
    case HF_OP_CONFIRM:
        format_confirm(store, op);
        break;
    case HF_OP_LEAVE:
        format_leave(store, op);
        break;
    case HF_OP_RECHECK:
        format_recheck(store, op);
        break;
    case HF_OP_LIST:
        format_list(store, op);
        break;
    case HF_OP_EVICT:
        format_evict(store, op);
        break;
    case HF_OP_PROBE:
        format_probe(store, op);
        break;
    case HF_OP_PUBLISH:
    default:
        redis_op_refuse(op, HF_ENOTSUP,
                        "locks of this format have no room for a value");
        break;
    }
}
