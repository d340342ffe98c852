/* format_ops.c - one lock of a peer's format: take it, or look again.
 *
 * Every operation is one call of one script over all its places.  There is no
 * queue: a waiter stands in our table alone, and each look is another try.
 *
 * Two of us here: the script is atomic, and SET NX (or EXISTS) decides.
 * Reply lost: the owner is the rid, so asking again finds what is ours without
 * lengthening it.  A try whose answer is missing, or that is still under way
 * when its place leaves, could take the lock after the leave: the leave then
 * writes a tomb, which the script of the try finds.  Paused here: whatever is
 * answered counts from the instant the call was sent.
 *
 * A record of another owner is never written to or deleted; what is no lock of
 * this layout is refused as another kind. */
#include "format.h"

void format_answer_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
    place->remaining = place->look_in = 0;
}

format_record *format_take_out(format_data *data, format_record *record)
{
    format_unlink(data, record);
    return record;
}

void format_dispose(hf_store *store, format_record *record)
{
    if (record && record->listening)
        format_unlisten(store, record->key, record->key_len);
    hfd_free(record);
}

/* ---- Sending ------------------------------------------------------------ */

static int64_t time_of(const hf_op *op, const hf_place *place)
{
    if (op->kind == HF_OP_LEAVE)
        return op->keep > 0 ? format_ms(op->keep) : 0;
    return format_lease_ms(op, place);
}

void format_encode(redis_call *call, hf__buf *out, const redis_server *server)
{
    hf_op *op = redis_op_from(call);
    const redis_op *mine = redis_op_of(op);
    format_item items[FORMAT_BATCH];
    hf_place **places = op->place ? &op->place : op->places;
    size_t n = op->place ? 1 : op->place_count, count = 0;
    size_t i = op->kind == HF_OP_LEAVE ? 0 : (size_t)mine->note;

    (void)server;
    for (; i < n && count < FORMAT_BATCH; i++) {
        if (format_verb(places[i]) == '-')
            continue;
        items[count++] = (format_item){
            .rid = &places[i]->rid,
            .key = places[i]->key,
            .key_len = places[i]->key_len,
            .verb = format_verb(places[i]),
            .ms = time_of(op, places[i]),
            .tomb_ms = op->kind == HF_OP_LEAVE ? (int64_t)mine->note : 0};
    }
    format_put(format_of(mine->store), call, out, items, count);
}

size_t format_batch(hf_op *op, size_t *ret_next)
{
    size_t count = 0, i = (size_t)redis_op_of(op)->note;

    for (; i < op->place_count && count < FORMAT_BATCH; i++)
        count += format_verb(op->places[i]) != '-';
    *ret_next = i;
    return count;
}

/* ---- Join and recheck --------------------------------------------------- */

/* When a look is worth while.  Peers that tell every release are asked again
 * when the holder must be gone; others more and more rarely, but often; those
 * who vote by chance, so that two who split the votes do not meet again. */
static hf_nsec time_to_look(const format_kind *kind, format_record *record,
                            int64_t left_ms)
{
    hf_nsec most = kind->look_most;
    hf_nsec look = HF_MS(50) << (record->looks < 5 ? record->looks : 5);

    if (record->looks < 5)
        record->looks++;
    if (kind->patient)
        look = left_ms == -1 ? HF_MS(1000) : most;
    if (kind->look_least > 0) {
        uint32_t chance;

        hfd_random(&chance, sizeof chance);
        look = kind->look_least +
               (most - kind->look_least) * (chance >> 16) / 65536;
    }
    if (look > most)
        look = most;
    if (left_ms >= 0 && HF_MS(left_ms) < look)
        look = HF_MS(left_ms);
    return look > 0 ? look : HF_MS(1);
}

void format_answer_granted(const format_data *data, hf_op *op, hf_place *place,
                           format_record *record, const format_answer *answer)
{
    bool asked = format_verb(place) == 'J' && record->state != FORMAT_GRANTED;
    uint32_t run = data->kind->run ? data->kind->run : 1;

    if (asked && place->lease > 0 && op->kind == HF_OP_JOIN)
        record->ends = op->sent + HF_MS(answer->left_ms);
    record->state = FORMAT_GRANTED;
    if (answer->token > 0) /* else who counts has forgotten it since */
        record->token = answer->token;
    if (record->num == 0)
        record->num = record->token ? record->token : (uint64_t)op->store_us;
    place->verdict = HF_GRANTED;
    place->reason = 0;
    if (place->run > run)
        place->run = run;
    place->num = record->num;
    place->token = record->token;
    place->look_in = 0;
    place->remaining = HF_MS(answer->left_ms < 0 ? 0 : answer->left_ms);
    /* A fixed lease begins with a join or a confirm, not with a look. */
    if (place->lease > 0 && record->ends == 0)
        place->remaining = 0;
}

static void answer_waits(const format_data *data, hf_op *op, hf_place *place,
                         format_record *record, const format_answer *answer)
{
    record->state = FORMAT_WAITS;
    if (record->num == 0)
        record->num = data->fenced ? answer->token + 1 : (uint64_t)op->store_us;
    place->verdict = HF_WAITS;
    place->reason = 0;
    place->num = record->num;
    place->token = 0;
    place->remaining = 0;
    place->look_in = time_to_look(data->kind, record, answer->left_ms);
}

/* Be told of releases.  What is told before the channel stands is made good
 * by the look that follows `listening`. */
static void begin_listening(hf_store *store, const hf_place *place)
{
    format_data *data = format_of(store);
    char key[FORMAT_KEY_MAX];
    size_t len = format_key(data, place->key, place->key_len, key);
    format_record *record;
    bool used = false;

    if (format_listen(store, key, len) != 0)
        return; /* out of memory: the timed looks go on */
    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (record && record->state == FORMAT_WAITS && !record->listening)
        used = record->listening = true;
    pthread_mutex_unlock(&data->mu);
    if (!used)
        format_unlisten(store, key, len);
}

void format_doubt_grant(const format_data *data, const format_record *record,
                        format_answer *answer)
{
    if (data->fenced && answer->code == FORMAT_MINE && answer->token == 0 &&
        (!record || record->token == 0))
        answer->code = FORMAT_BUSY;
}

/* The answer about one place; 0, or why a join is refused. */
static int settle_place(hf_store *store, hf_op *op, hf_place *place,
                        format_answer *answer)
{
    format_data *data = format_of(store);
    bool listen = false, deaf = false;
    format_record *record, *gone = NULL;
    int code = 0;

    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    format_doubt_grant(data, record, answer);
    if (record && format_verb(place) == 'J')
        record->asking -= record->asking > 0;
    if (!record || answer->code == FORMAT_DEAD ||
        (answer->code != FORMAT_MINE && format_verb(place) == 'L')) {
        /* Detached meanwhile, left, or a hold that is over. */
        format_answer_gone(place, HF_ENOTHELD);
        if (record && answer->code == FORMAT_DEAD)
            gone = format_take_out(data, record);
    } else if (answer->code == FORMAT_MINE) {
        format_answer_granted(data, op, place, record, answer);
        deaf = record->listening;
        record->listening = false;
    } else {
        answer_waits(data, op, place, record, answer);
        listen = !record->listening;
        if (op->kind == HF_OP_JOIN && answer->code == FORMAT_ALIEN)
            code = HF_EKIND;
        else if (op->kind == HF_OP_JOIN && op->only_if_granted)
            code = answer->code == FORMAT_YOUNG ? HF_EQUARANTINE : HF_EBUSY;
        if (code)
            gone = format_take_out(data, record);
    }
    pthread_mutex_unlock(&data->mu);
    format_dispose(store, gone);
    if (deaf) {
        char key[FORMAT_KEY_MAX];

        format_unlisten(store, key,
                        format_key(data, place->key, place->key_len, key));
    } else if (listen && code == 0) {
        begin_listening(store, place);
    }
    return code;
}

/* A try without an answer: it may have taken the lock, or may do so yet. */
static void unsettle_place(hf_store *store, const hf_op *op,
                           const hf_place *place, hf_outcome outcome)
{
    format_data *data = format_of(store);
    format_record *record, *gone = NULL;

    if (format_verb(place) != 'J')
        return;
    pthread_mutex_lock(&data->mu);
    record = format_find(data, &place->rid);
    if (record) {
        record->asking -= record->asking > 0;
        record->stray = record->stray || outcome == HF_UNKNOWN;
        if (op->kind == HF_OP_JOIN && record->state == FORMAT_NEW &&
            !record->stray && record->asking == 0)
            gone = format_take_out(data, record);
    }
    pthread_mutex_unlock(&data->mu);
    format_dispose(store, gone);
}

static void refuse_join(hf_op *op, int code)
{
    if (code == HF_EBUSY)
        redis_op_refuse(op, code, "held by another");
    else if (code == HF_EQUARANTINE)
        redis_op_refuse(op, code,
                        "too many servers were started just now and may have "
                        "forgotten who holds it: their votes count when they "
                        "have run for max_lease_ms (strict)");
    else
        redis_op_refuse(op, code,
                        "the key holds a record that is no lock of this "
                        "format: use the format of those who wrote it, or "
                        "keys of your own (prefix=)");
}

static void join_landed(redis_call *call, hf_outcome outcome, const resp *reply,
                        const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    format_answer answer;
    resp at;
    int code;

    format_note_sent(op);
    op->store_us = outcome == HF_APPLIED ? format_read(reply, 1) : 0;
    if (op->store_us == 0) {
        unsettle_place(store, op, op->place,
                       outcome == HF_APPLIED ? HF_UNKNOWN : outcome);
        if (outcome == HF_APPLIED)
            format_nonsense(op);
        else
            redis_op_failed(op, outcome, why);
        return;
    }
    at = resp_item(reply, 0);
    answer = format_next(&at);
    code = settle_place(store, op, op->place, &answer);
    if (code)
        refuse_join(op, code);
    else
        format_finish(store, op);
}

void format_join(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    hf_place *place = op->place;
    const format_session *session;
    format_record *record = NULL;

    if (place->key_len == 0 || place->key_len > HF_KEY_MAX ||
        place->lease < 0) {
        hfd_finish(op, HF_NOT_APPLIED, HF_EINVAL);
        return;
    }
    if (place->mode != HF_EXCLUSIVE) {
        redis_op_refuse(op, HF_ENOTSUP,
                        "locks of this format are exclusive only");
        return;
    }
    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session) {
        op->ttl = session->ttl;
        record = format_find(data, &place->rid);
        if (!record)
            record = format_add(data, place, &op->sid);
    }
    if (record) {
        /* What was ours already is only looked at: expired is final. */
        format_set_verb(place, record->state == FORMAT_GRANTED ? 'L' : 'J');
        if (format_verb(place) == 'J')
            record->asking++;
    }
    pthread_mutex_unlock(&data->mu);
    if (!session) {
        redis_op_refuse(op, HF_EEXPIRED, "the session is over");
    } else if (!record) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
    } else {
        redis_note_bell(store, place);
        redis_op_of(op)->note = 0;
        redis_op_send(store, op, format_encode, join_landed);
    }
}

static void send_rechecks(hf_store *store, hf_op *op);

static void recheck_landed(redis_call *call, hf_outcome outcome,
                           const resp *reply, const hf_error *why)
{
    hf_op *op = redis_op_from(call);
    hf_store *store = redis_op_of(op)->store;
    size_t next, i = (size_t)redis_op_of(op)->note;
    size_t n = format_batch(op, &next);
    int64_t now = outcome == HF_APPLIED ? format_read(reply, n) : 0;
    resp at;

    if (i == 0)
        format_note_sent(op);
    if (now == 0) {
        for (; i < op->place_count; i++)
            unsettle_place(store, op, op->places[i],
                           i >= next               ? HF_NOT_APPLIED
                           : outcome == HF_APPLIED ? HF_UNKNOWN
                                                   : outcome);
        if (outcome == HF_APPLIED)
            format_nonsense(op);
        else
            redis_op_failed(op, outcome, why);
        return;
    }
    op->store_us = now;
    at = resp_item(reply, 0);
    for (; i < next; i++) {
        format_answer answer;

        if (format_verb(op->places[i]) == '-')
            continue;
        answer = format_next(&at);
        settle_place(store, op, op->places[i], &answer);
    }
    redis_op_of(op)->note = next;
    send_rechecks(store, op);
}

static void send_rechecks(hf_store *store, hf_op *op)
{
    size_t next;

    if (format_batch(op, &next) > 0)
        redis_op_send(store, op, format_encode, recheck_landed);
    else
        format_finish(store, op);
}

void format_recheck(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    const format_session *session;

    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        op->ttl = session->ttl;
    for (size_t i = 0; i < op->place_count; i++) {
        hf_place *place = op->places[i];
        format_record *record = format_find(data, &place->rid);
        bool look;

        if (record && record->leaving)
            record = NULL; /* it would be taken behind its own leave */
        look = record && (record->state == FORMAT_GRANTED || !session);
        format_set_verb(place, !record ? '-' : look ? 'L' : 'J');
        if (record && !look)
            record->asking++;
        if (!record)
            format_answer_gone(place, HF_ENOTHELD);
    }
    pthread_mutex_unlock(&data->mu);
    for (size_t i = 0; i < op->place_count; i++)
        redis_note_bell(store, op->places[i]);
    redis_op_of(op)->note = 0;
    send_rechecks(store, op);
}
