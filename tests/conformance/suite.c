/* suite.c - one operation at a time, with what must be true of every answer.
 *
 * run_op checks what no clause needs to repeat: done once, an outcome, a code
 * that has a name, a send instant within the call.  Places are filled anew for
 * each entry, since a rid is used once. */
#include "suite.h"

hf_op make_op(const party *p, hf_op_kind kind)
{
    return (hf_op){.kind = kind,
                   .sid = p->sid,
                   .deadline = hfd_now() + HF_MS(PATIENCE_MS)};
}

static void count_done(hf_op *op)
{
    atomic_int *done = op->core;

    atomic_fetch_add(done, 1);
}

void run_op(party *p, hf_op *op)
{
    atomic_int done = 0;
    hf_nsec before = hfd_now();

    op->core = &done;
    op->done = count_done;
    op->driven = true;
    p->driver->start(p->store, op);
    if (!HAS_CAP(p, HF_CAP_BLOCKING)) /* done or not: it was promised */
        p->driver->drive(p->store, op);
    EXPECT_EQ(atomic_load(&done), 1);
    EXPECT(op->outcome == HF_APPLIED || op->outcome == HF_NOT_APPLIED);
    EXPECT(op->outcome == HF_APPLIED || op->error.code != 0);
    EXPECT(strcmp(hf_error_name(op->error.code), "HF_?") != 0);
    EXPECT(op->error.code == HF_EINVAL ||
           (op->sent >= before && op->sent <= hfd_now()));
}

hf_id make_rid(void)
{
    hf_id rid;

    hfd_random(&rid, sizeof rid);
    return rid;
}

hf_place make_place(const char *key, hf_mode mode)
{
    return (hf_place){.rid = make_rid(),
                      .key = key,
                      .key_len = (uint16_t)strlen(key),
                      .mode = (uint8_t)mode,
                      .run = 1};
}

hf_place make_permit(const char *key, uint32_t places)
{
    hf_place place = make_place(key, HF_PERMIT);

    place.places = places;
    return place;
}

/* What the core does with HF_JUDGE. */
static void judge_place(hf_place *place)
{
    size_t wait_for = 0;

    if (place->verdict != HF_JUDGE)
        return;
    EXPECT(place->seat_count > 0);
    EXPECT(place->seats[place->seat_count - 1].num == place->num);
    for (size_t i = 1; i < place->seat_count; i++)
        EXPECT(place->seats[i - 1].num < place->seats[i].num);
    place->verdict = hfd_admit(place->seats, place->seat_count,
                               place->seat_count - 1, &wait_for);
    hfd_free(place->seats);
    place->seats = NULL;
    place->seat_count = 0;
    if (place->verdict != HF_GRANTED)
        place->token = 0;
}

static void check_place(party *p, hf_place *place)
{
    EXPECT(place->verdict != HF_JUDGE || !HAS_CAP(p, HF_CAP_MARKS));
    judge_place(place);
    if (place->verdict == HF_GRANTED) {
        EXPECT(place->num > 0 && place->run >= 1);
        EXPECT(place->token > 0 || !HAS_CAP(p, HF_CAP_TOKEN));
        EXPECT(place->token >= place->num || !HAS_CAP(p, HF_CAP_TOKEN));
    } else if (place->verdict == HF_WAITS) {
        EXPECT(place->num > 0 && place->look_in >= 0);
    } else {
        EXPECT_EQ(place->verdict, HF_GONE);
        EXPECT(place->reason == HF_EFORCED || place->reason == HF_EEXPIRED ||
               place->reason == HF_ENOTHELD);
    }
}

/* Where holds expire one by one, the renewal names them. */
static void note_held(party *p, hf_place *place, bool held)
{
    size_t at = 0;

    if (!HAS_CAP(p, HF_CAP_EACH))
        return;
    pthread_mutex_lock(&p->mutex);
    while (at < p->held_count && p->held[at] != place)
        at++;
    if (held && at == p->held_count && at < HELD_MAX && place->lease == 0)
        p->held[p->held_count++] = place;
    else if (!held && at < p->held_count)
        p->held[at] = p->held[--p->held_count];
    pthread_mutex_unlock(&p->mutex);
}

static int run_place(party *p, hf_op *op, hf_place *place)
{
    op->place = place;
    run_op(p, op);
    if (op->error.code == 0) {
        check_place(p, place);
        note_held(p, place, place->verdict == HF_GRANTED);
    }
    return op->error.code;
}

int join_value(party *p, hf_place *place, const void *value, size_t len)
{
    hf_op op = make_op(p, HF_OP_JOIN);

    op.value = value;
    op.value_len = len;
    return run_place(p, &op, place);
}

int join(party *p, hf_place *place)
{
    return join_value(p, place, NULL, 0);
}

int try_join(party *p, hf_place *place)
{
    hf_op op = make_op(p, HF_OP_JOIN);

    op.only_if_granted = true;
    return run_place(p, &op, place);
}

int recheck_many(party *p, hf_place **places, size_t n)
{
    hf_op op = make_op(p, HF_OP_RECHECK);

    op.places = places;
    op.place_count = n;
    run_op(p, &op);
    for (size_t i = 0; i < n && op.error.code == 0; i++) {
        check_place(p, places[i]);
        note_held(p, places[i], places[i]->verdict == HF_GRANTED);
    }
    return op.error.code;
}

int recheck(party *p, hf_place *place)
{
    return recheck_many(p, &place, 1);
}

/* These answer a bare verdict, whatever the store knows of marks. */
static int run_bare(party *p, hf_op *op, hf_place *place)
{
    op->place = place;
    run_op(p, op);
    if (op->error.code == 0)
        EXPECT(place->verdict == HF_GRANTED || place->verdict == HF_WAITS ||
               place->verdict == HF_GONE);
    return op->error.code;
}

int confirm(party *p, hf_place *place)
{
    hf_op op = make_op(p, HF_OP_CONFIRM);

    return run_bare(p, &op, place);
}

int publish(party *p, hf_place *place, const void *value, size_t len)
{
    hf_op op = make_op(p, HF_OP_PUBLISH);

    op.value = value;
    op.value_len = len;
    return run_bare(p, &op, place);
}

static hf_verdict run_leave(party *p, hf_op *op, hf_place *place)
{
    int code = run_bare(p, op, place);

    note_held(p, place, false);
    /* A session that is over may be said so twice. */
    if (code != HF_EEXPIRED)
        EXPECT_CODE(code, 0);
    return place->verdict;
}

hf_verdict leave(party *p, hf_place *place)
{
    hf_op op = make_op(p, HF_OP_LEAVE);

    return run_leave(p, &op, place);
}

hf_verdict leave_tomb(party *p, hf_place *place)
{
    hf_op op = make_op(p, HF_OP_LEAVE);

    op.tomb = true;
    return run_leave(p, &op, place);
}

hf_verdict leave_keep(party *p, hf_place *place, int keep_ms)
{
    hf_op op = make_op(p, HF_OP_LEAVE);

    op.keep = HF_MS(keep_ms);
    return run_leave(p, &op, place);
}

uint32_t evict(party *p, const char *key, uint64_t token, bool now, int ttl_ms)
{
    hf_op op = make_op(p, HF_OP_EVICT);

    op.text = key;
    op.text_len = strlen(key);
    op.token = token;
    op.now = now;
    op.ttl = HF_MS(ttl_ms);
    run_op(p, &op);
    EXPECT_CODE(op.error.code, 0);
    return op.count;
}

void must_hold(party *p, hf_place *place)
{
    EXPECT_CODE(join(p, place), 0);
    EXPECT_EQ(place->verdict, HF_GRANTED);
}

void must_wait(party *p, hf_place *place)
{
    EXPECT_CODE(join(p, place), 0);
    EXPECT_EQ(place->verdict, HF_WAITS);
}

void must_leave(party *p, hf_place *place)
{
    EXPECT_EQ(leave(p, place), HF_GRANTED);
}

void await_verdict(party *p, hf_place *place, hf_verdict verdict)
{
    long long end = test_now_ms() + PATIENCE_MS;

    for (;;) {
        EXPECT_CODE(recheck(p, place), 0);
        if (place->verdict == verdict)
            return;
        if (test_now_ms() >= end)
            FAIL_TEST("verdict is still %d, expected %d", (int)place->verdict,
                      (int)verdict);
        test_sleep_ms(10);
    }
}

/* ---- Listings ----------------------------------------------------------- */

static void *copy_bytes(const void *bytes, size_t len)
{
    char *copy = malloc(len + 1);

    EXPECT(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static int keep_row(const hf_row *row, void *user)
{
    listing *list = user;
    listed *kept = &list->rows[list->count];

    EXPECT(list->count < ROWS_MAX);
    EXPECT(row->info.key != NULL && row->info.key[row->info.key_len] == '\0');
    EXPECT(row->info.name != NULL && row->info.host != NULL);
    *kept = (listed){.info = row->info, .rid = row->rid, .sid = row->sid};
    kept->info.key = copy_bytes(row->info.key, row->info.key_len);
    kept->info.value = copy_bytes(row->info.value, row->info.value_len);
    kept->info.name = copy_bytes(row->info.name, strlen(row->info.name));
    list->count++;
    return list->count == list->stop_after;
}

listing *list_entries(party *p, const char *prefix, size_t len, bool only_mine)
{
    listing *list = calloc(1, sizeof *list);
    hf_op op = make_op(p, HF_OP_LIST);

    EXPECT(list != NULL);
    op.text = prefix;
    op.text_len = len;
    op.only_mine = only_mine;
    op.emit_row = keep_row;
    op.user = list;
    run_op(p, &op);
    EXPECT_CODE(op.error.code, 0);
    return list;
}

void free_listing(listing *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((void *)(uintptr_t)list->rows[i].info.key);
        free((void *)(uintptr_t)list->rows[i].info.value);
        free((void *)(uintptr_t)list->rows[i].info.name);
    }
    free(list);
}

size_t count_entries(party *p)
{
    listing *list = list_entries(p, NULL, 0, false);
    size_t count = list->count;

    free_listing(list);
    return count;
}

/* ---- The oracle --------------------------------------------------------- */

bool oracle_granted(const oracle_entry *queue, size_t me)
{
    if (queue[me].mode == HF_PERMIT)
        return me < queue[me].places;
    for (size_t i = 0; i < me; i++) {
        if (queue[i].mode == HF_EXCLUSIVE || queue[me].mode == HF_EXCLUSIVE)
            return false;
    }
    return true;
}
