/* list.c - what an operator sees and does: list, break.
 *
 * No server has an index of its locks, so a listing walks all keys of all
 * servers (SCAN, a page per round trip), gathers what looks like a lock, and
 * tells what a majority has with the same owner; what a minority has is a vote
 * on its way, or left over by somebody who died, and no lock.  Those who wait
 * are in no server; a session's own are known here.
 *
 * Breaking deletes on all servers and takes effect at once: there is no place
 * for a mark that the holder would read first.  It learns of it by its next
 * renewal.  A reply lost: the listing needs a majority of whole walks, and a
 * break one of answers; both may be asked again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redlock.h"

typedef struct row {
    char *text; /* key, NUL, owner, NUL */
    size_t key_len, owner_len;
    unsigned node;
    int64_t left_ms;
    uint64_t token, num;
    hf_id rid, sid;
    int64_t age_ms;
    bool mine, waits, closed;
} row;

typedef struct rows {
    row *rows;
    size_t count, room;
    bool short_of_memory;
    char pattern[2 * FORMAT_KEY_MAX + 2];
    size_t pattern_len;
    char name[64]; /* of the session that asks */
} rows;

static void free_rows(rows *all)
{
    for (size_t i = 0; i < all->count; i++)
        hfd_free(all->rows[i].text);
    hfd_free(all->rows);
    hfd_free(all);
}

/* Another row, with its texts copied; NULL: no memory. */
static row *add_row(rows *all, const char *key, size_t key_len,
                    const char *owner, size_t owner_len)
{
    row *added;

    if (all->count == all->room) {
        size_t room = all->room ? all->room * 2 : 64;
        row *more = hfd_realloc(all->rows, room * sizeof *more);

        if (!more)
            return NULL;
        all->rows = more;
        all->room = room;
    }
    added = &all->rows[all->count];
    *added = (row){.key_len = key_len, .owner_len = owner_len, .age_ms = -1};
    added->text = hfd_alloc(key_len + owner_len + 2);
    if (!added->text)
        return NULL;
    memcpy(added->text, key, key_len);
    if (owner_len > 0)
        memcpy(added->text + key_len + 1, owner, owner_len);
    all->count++;
    return added;
}

/* What this process knows of a row; with data->mu held. */
static void know_row(row *r, const format_record *record, const hf_id *sid)
{
    r->sid = record->sid;
    r->num = record->num;
    r->mine = memcmp(&record->sid, sid, sizeof *sid) == 0;
    r->age_ms = (hfd_now() - record->born) / HF_MS(1);
}

/* By key, the holder first, by owner, by number, by server. */
static int compare_rows(const void *a, const void *b)
{
    const row *one = a, *two = b;
    size_t len = one->key_len < two->key_len ? one->key_len : two->key_len;
    int order = memcmp(one->text, two->text, len);

    if (order == 0 && one->key_len != two->key_len)
        order = one->key_len < two->key_len ? -1 : 1;
    if (order == 0 && one->waits != two->waits)
        order = one->waits ? 1 : -1;
    if (order == 0 && one->waits && one->num != two->num)
        order = one->num < two->num ? -1 : 1;
    if (order == 0)
        order =
            strcmp(one->text + one->key_len + 1, two->text + two->key_len + 1);
    if (order == 0 && one->node != two->node)
        order = one->node < two->node ? -1 : 1;
    return order;
}

static int emit_row(hf_store *store, hf_op *op, const rows *all, const row *r)
{
    hf_row told = {.rid = r->rid, .sid = r->sid};

    told.info =
        (hf_entry_info){.key = r->text,
                        .key_len = r->key_len,
                        .mode = HF_EXCLUSIVE,
                        .granted = !r->waits,
                        .mine = r->mine,
                        .closed = r->closed,
                        .number = r->num,
                        .token = r->token,
                        .pid = r->mine ? getpid() : 0,
                        .host = r->mine ? store->host_name : "",
                        .name = r->mine ? all->name : r->text + r->key_len + 1,
                        .age_ms = r->age_ms,
                        .remaining_ms = r->left_ms < 0 ? -1 : r->left_ms,
                        .value = ""};
    return op->emit_row ? op->emit_row(&told, op->user) : 0;
}

static bool same_lock(const row *a, const row *b)
{
    return a->key_len == b->key_len && a->owner_len == b->owner_len &&
           memcmp(a->text, b->text, a->key_len + 1 + a->owner_len) == 0;
}

/* ---- Of all, by what a majority has ------------------------------------- */

/* The rows of one lock begin at i; does a majority have it? */
static bool count_rows(const redlock_store *store, rows *all, size_t i,
                       size_t *ret_next)
{
    vote votes[VOTE_NODES_MAX] = {{.heard = false}};
    row *first = &all->rows[i];
    vote_tally tally;

    for (; i < all->count && same_lock(first, &all->rows[i]); i++) {
        const row *r = &all->rows[i];

        votes[r->node] =
            (vote){.heard = true,
                   .code = VOTE_MINE,
                   .left_ms = r->left_ms < 0 ? INT32_MAX : r->left_ms,
                   .number = r->token};
    }
    *ret_next = i;
    tally = vote_count(votes, 1, store->count);
    first->left_ms = tally.left_ms == INT32_MAX ? -1 : tally.left_ms;
    first->token = vote_is_level(&tally, store->count) ? tally.number : 0;
    if (first->num == 0)
        first->num = first->token;
    return tally.verdict == VOTE_YES;
}

static void end_list(redlock_walk *walk)
{
    redlock_store *store = walk->store;
    hf_op *op = walk->op;
    rows *all = walk->data;
    bool enough = walk_whole(walk, &op->error) >= vote_majority(store->count);
    bool whole = enough && !all->short_of_memory;
    size_t next;

    if (whole && all->count > 0)
        qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    for (size_t i = 0; whole && i < all->count; i = next) {
        if (count_rows(store, all, i, &next) &&
            emit_row(&store->base, op, all, &all->rows[i]) != 0)
            break;
    }
    free_rows(all);
    if (!enough)
        hfd_finish(op, HF_NOT_APPLIED, op->error.code);
    else if (!whole)
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
    else
        format_finish(&store->base, op);
}

static void encode_page(redlock_step *step, hf__buf *out)
{
    const format_data *data = format_of(&step->walk->store->base);
    const rows *all = step->walk->data;

    resp_script(out, &step->call, data->kind->rows, 0, 3);
    resp_text(out, data->extra);
    resp_text(out, step->cursor);
    resp_word(out, all->pattern, all->pattern_len);
}

/* One lock of a page; at walks.  False: it is nonsense. */
static bool read_row(redlock_step *step, resp *at)
{
    format_data *data = format_of(&step->walk->store->base);
    rows *all = step->walk->data;
    resp key = resp_at(at->after), owner = resp_at(key.after);
    resp left = resp_at(owner.after);
    const format_record *record;
    int64_t token;
    row *r;

    *at = resp_at(left.after);
    token = resp_int(at, 0);
    if (key.type != RESP_STRING || owner.type != RESP_STRING ||
        key.len < data->prefix_len)
        return false;
    r = add_row(all, key.text + data->prefix_len, key.len - data->prefix_len,
                owner.text, owner.len);
    if (!r) {
        all->short_of_memory = true;
        return false;
    }
    r->node = step->node;
    r->left_ms = resp_int(&left, -1);
    r->token = token > 0 ? (uint64_t)token : 0;
    if (!format_parse_owner(data->kind, owner.text, owner.len, &r->rid,
                            &r->closed))
        r->rid = (hf_id){.bytes = {0}};
    pthread_mutex_lock(&data->mu);
    record = r->closed ? NULL : format_find(data, &r->rid);
    if (record)
        know_row(r, record, &step->walk->op->sid);
    pthread_mutex_unlock(&data->mu);
    return true;
}

static bool hear_page(redlock_step *step, const resp *reply)
{
    resp at;
    bool good;

    if (!reply) {
        step->failed = true;
        return false;
    }
    at = resp_item(reply, 0);
    good = reply->type == RESP_ARRAY && reply->number % 4 == 1 &&
           at.type == RESP_STRING && at.len < sizeof step->cursor;
    if (good) {
        memcpy(step->cursor, at.text, at.len);
        step->cursor[at.len] = '\0';
    }
    for (int64_t i = 1; good && i < reply->number; i += 4)
        good = read_row(step, &at);
    if (!good) {
        step->failed = true;
        hfd_error(&step->why, HF_EPROTO, "redlock", 0,
                  "%s: its answer is not what the script says",
                  step->walk->store->nodes[step->node].where);
    }
    return good && strcmp(step->cursor, "0") != 0;
}

/* The beginning of keys as a pattern that means just these bytes. */
static size_t put_pattern(char *ret, const char *bytes, size_t len)
{
    char *at = ret;

    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\0' && strchr("*?[]\\", bytes[i]))
            *at++ = '\\';
        *at++ = bytes[i];
    }
    *at++ = '*';
    return (size_t)(at - ret);
}

/* ---- Mine alone --------------------------------------------------------- */

static bool add_mine(format_data *data, const hf_op *op, rows *all,
                     const format_record *record)
{
    const char *key = record->key + data->prefix_len;
    size_t len = record->key_len - data->prefix_len;
    char owner[FORMAT_OWNER_MAX];
    row *r;

    if (memcmp(&record->sid, &op->sid, sizeof op->sid) != 0 ||
        record->state == FORMAT_NEW || len < op->text_len ||
        (op->text && memcmp(key, op->text, op->text_len) != 0))
        return true;
    r = add_row(all, key, len, owner,
                format_owner(data->kind, &record->rid, owner));
    if (!r)
        return false;
    know_row(r, record, &op->sid);
    r->rid = record->rid;
    r->token = record->token;
    r->waits = record->state == FORMAT_WAITS;
    r->left_ms = record->ends > 0 ? (record->ends - hfd_now()) / HF_MS(1) : -1;
    return true;
}

static void list_mine(hf_store *store, hf_op *op, rows *all)
{
    format_data *data = format_of(store);
    bool whole = true;

    pthread_mutex_lock(&data->mu);
    for (size_t i = 0; i < data->slots && whole; i++) {
        for (const format_record *at = data->by_rid[i]; at && whole;
             at = at->next_rid)
            whole = add_mine(data, op, all, at);
    }
    pthread_mutex_unlock(&data->mu);
    if (whole && all->count > 0)
        qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    for (size_t i = 0; whole && i < all->count; i++) {
        if (emit_row(store, op, all, &all->rows[i]) != 0)
            break;
    }
    free_rows(all);
    if (whole)
        format_finish(store, op);
    else
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
}

void format_list(hf_store *store, hf_op *op)
{
    format_data *data = format_of(store);
    rows *all = hfd_alloc(sizeof *all);
    const format_session *session;
    char key[FORMAT_KEY_MAX];
    redlock_walk *walk;

    if (!all) {
        hfd_finish(op, HF_NOT_APPLIED, HF_ENOMEM);
        return;
    }
    all->pattern_len = put_pattern(
        all->pattern, key,
        format_key(data, op->text, op->text ? op->text_len : 0, key));
    pthread_mutex_lock(&data->mu);
    session = format_session_of(data, &op->sid);
    if (session)
        memcpy(all->name, session->name, sizeof all->name);
    pthread_mutex_unlock(&data->mu);
    if (op->only_mine) {
        list_mine(store, op, all);
        return;
    }
    walk = walk_new(store, op);
    if (!walk) {
        free_rows(all);
        return;
    }
    walk->data = all;
    walk->encode = encode_page;
    walk->hear = hear_page;
    walk->done = end_list;
    walk_start(walk);
}
