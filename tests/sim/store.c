/* store.c - the store of the simulated world: the mem driver's model, watched.
 *
 * After every operation it compares who is granted with what it saw last and
 * records the difference, so that the checker knows the truth without asking
 * any client.  Grants happen only inside operations (the model sweeps what has
 * ended when it is asked), so nothing is missed.
 *
 * In a build with HF_MUTANTS bugs of a store can be planted around the model,
 * to show that the checker convicts a bad driver too. */
#include "sim/sim.h"

#include <string.h>

#include "core/internal.h"
#include "mem/state.h"

const char *const sim_keys[SIM_KEYS] = {"a", "b", "c"};

sim_sid *sim_find_sid(sim_world *w, const hf_id *sid)
{
    for (size_t i = w->sid_count; i-- > 0;) {
        if (memcmp(&w->sids[i].sid, sid, sizeof *sid) == 0)
            return &w->sids[i];
    }
    return NULL;
}

static void tell_changed(void *ctx, const hf_id *sid, const hf_id *rid,
                         const hf_place *fresh)
{
    if (!PLANTED(NO_WAKE))
        sim_net_push(ctx, sid, rid, fresh, 0);
}

static void tell_news(void *ctx, const hf_id *sid, const hf_id *rid, int reason)
{
    sim_net_push(ctx, sid, rid, NULL, reason);
}

int sim_store_open(sim_world *w)
{
    w->model = hf__mem_model_new();
    if (!w->model)
        return -1;
    hf__mem_model_set_marks(w->model, w->marks);
    hf__mem_model_set_each(w->model, w->each);
    hf__mem_model_tell(
        w->model,
        &(hf__mem_tell){.ctx = w, .changed = tell_changed, .news = tell_news});
    return 0;
}

/* ---- watching ---- */

static void record_grant(sim_world *w, sim_event_kind kind, uint8_t key,
                         const mem_entry *entry)
{
    sim_event *e = sim_record(&w->history, kind, w->now);
    const sim_sid *who = sim_find_sid(w, &entry->session->sid);

    e->key = key;
    e->token = entry->token;
    e->num = entry->num;
    e->count = entry->run;
    e->mode = entry->mode;
    e->life = who ? who->life : 0;
}

static void watch_key(sim_world *w, uint8_t key)
{
    const mem_queue *queue = hf__mem_find_queue(w->model, sim_keys[key], 1);
    uint64_t now[SIM_SEEN], *seen = w->seen[key];
    size_t count = 0;

    if (queue) {
        MEM_EACH(at, &queue->entries) {
            const mem_entry *entry = MEM_OF(at, mem_entry, in_queue);
            size_t i = 0;

            if (!entry->granted || count == SIM_SEEN)
                continue;
            while (i < w->seen_count[key] && seen[i] != entry->token)
                i++;
            if (i == w->seen_count[key])
                record_grant(w, SIM_STORE_GRANT, key, entry);
            now[count++] = entry->token;
        }
    }
    for (size_t i = 0; w->trace && i < w->seen_count[key]; i++) {
        size_t j = 0;

        while (j < count && now[j] != seen[i])
            j++;
        if (j == count) {
            sim_event *e = sim_record(&w->history, SIM_STORE_END, w->now);

            e->key = key;
            e->token = seen[i];
        }
    }
    memcpy(seen, now, count * sizeof *seen);
    w->seen_count[key] = count;
}

/* ---- planted bugs ---- */

static void evict_early(sim_world *w, hf_nsec now)
{
    MEM_EACH(at, &w->model->living) {
        mem_session *session = MEM_OF(at, mem_session, all);

        if (session->ends - now > HF_MS(450))
            continue;
        MEM_EACH(in, &session->entries) {
            mem_entry *entry = MEM_OF(in, mem_entry, in_session);

            if (entry->queue && entry->ends == HF_NEVER)
                hf__mem_remove_entry(w->model, entry, HF_EEXPIRED, true);
        }
    }
    hf__mem_settle(w->model);
}

/* Somebody else drew a number meanwhile and became visible first. */
static void number_early(hf__mem_store *model, const hf_op *op)
{
    mem_entry *entry = hf__mem_find_entry(model, &op->place->rid);

    if (!entry || !entry->queue ||
        entry->in_queue.prev == &entry->queue->entries)
        return;
    MEM_EACH(at, &entry->queue->entries) {
        mem_entry *first = MEM_OF(at, mem_entry, in_queue);
        mem_queue *queue = entry->queue;

        if (first->granted)
            continue;
        /* Ahead of all who wait, and, when that is nobody, of the holder. */
        mem_ring_remove(&entry->in_queue);
        mem_ring_append(first == entry ? queue->entries.next : &first->in_queue,
                        &entry->in_queue);
        break;
    }
}

static void plant_before(sim_world *w, hf_op *op, hf_nsec now)
{
    hf__mem_store *model = w->model;

    if (PLANTED(EVICT_EARLY))
        evict_early(w, now);
    if (PLANTED(NO_TOMB) && op->kind == HF_OP_LEAVE)
        op->tomb = false;
    if (PLANTED(JOIN_TWICE) && op->kind == HF_OP_JOIN &&
        hf__mem_find_entry(model, &op->place->rid))
        op->place->rid.bytes[0] ^= 0xff;
    if (PLANTED(NO_FLOOR) && op->kind == HF_OP_JOIN && model->entry_count == 0)
        model->counter = 0;
    if (PLANTED(LEAVE_ANY) && op->kind == HF_OP_LEAVE &&
        !hf__mem_find_entry(model, &op->place->rid)) {
        mem_queue *queue =
            hf__mem_find_queue(model, op->place->key, op->place->key_len);

        if (queue)
            op->place->rid =
                MEM_OF(queue->entries.next, mem_entry, in_queue)->rid;
    }
}

static void plant_after(sim_world *w, hf_op *op, hf_nsec ends)
{
    mem_session *session = hf__mem_find_session(w->model, &op->sid);

    if (PLANTED(LEASE_TOO_LONG) && op->remaining)
        op->remaining += HF_MS(600);
    if (PLANTED(RENEW_SHORT) && op->kind == HF_OP_RENEW && session &&
        session->alive) {
        session->ends = ends;
        hf__mem_note_due(w->model, ends);
    }
    if (PLANTED(NUMBER_EARLY) && op->kind == HF_OP_JOIN && !w->marks &&
        op->error.code == 0)
        number_early(w->model, op);
}

/* ---- running ---- */

void sim_store_run(sim_world *w, hf_op *op)
{
    hf_nsec now = sim_store_now(w), ends = 0;

    if (hf__mem_find_session(w->model, &op->sid))
        ends = hf__mem_find_session(w->model, &op->sid)->ends;
    w->in_model = true;
    plant_before(w, op, now);
    hf__mem_model_run(w->model, op, now);
    if (w->clock)
        op->store_us = now / 1000;
    plant_after(w, op, ends);
    w->in_model = false;
    for (uint8_t key = 0; key < w->key_count; key++)
        watch_key(w, key);
}

bool sim_store_has(sim_world *w, uint8_t key, uint64_t token)
{
    const mem_queue *queue = hf__mem_find_queue(w->model, sim_keys[key], 1);
    hf_nsec now = sim_store_now(w);

    if (!queue)
        return false;
    MEM_EACH(at, &queue->entries) {
        const mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

        if (entry->granted && !entry->closed && token >= entry->token &&
            token - entry->token < entry->run)
            return entry->ends == HF_NEVER
                       ? entry->session->alive && entry->session->ends > now
                       : entry->ends > now;
    }
    return false;
}

/* Without marks, or a queue, a break removes at once, and a fixed lease goes on
 * by itself where no renewal brings the news: then only the token protects. */
static bool may_break(sim_world *w, uint8_t key)
{
    const mem_queue *queue = hf__mem_find_queue(w->model, sim_keys[key], 1);

    if (!queue || !w->marks || w->each)
        return false;
    MEM_EACH(at, &queue->entries) {
        const mem_entry *entry = MEM_OF(at, mem_entry, in_queue);

        if (entry->granted && entry->lease > 0)
            return false;
    }
    return true;
}

void sim_store_break(sim_world *w, uint8_t key)
{
    hf_op op = {.kind = HF_OP_EVICT,
                .ttl = w->longest_lease,
                .text = sim_keys[key],
                .text_len = 1};

    if (may_break(w, key)) {
        sim_record(&w->history, SIM_BREAK, w->now)->key = key;
        sim_store_run(w, &op);
    }
}

void sim_store_haunt(sim_world *w, sim_client *c)
{
    uint8_t key = (uint8_t)sim_below(&w->chance, (uint64_t)w->key_count);
    hf_place place = {.key = sim_keys[key],
                      .key_len = 1,
                      .mode = w->key_mode[key],
                      .places = w->key_places[key],
                      .run = 1};
    hf_op op = {.kind = HF_OP_JOIN, .sid = c->core->sid, .place = &place};

    if (w->each || c->core->attach != HF_ATTACH_DONE)
        return;
    for (size_t i = 0; i < sizeof place.rid.bytes; i++)
        place.rid.bytes[i] = (uint8_t)sim_random(&w->chance);
    sim_trace(w, "the store comes back with a place of client %u", c->life);
    sim_store_run(w, &op);
    hfd_free(place.seats);
    sim_net_doubt(c);
}

int sim_keep_row(const hf_row *row, void *rows)
{
    sim_rows *list = rows;
    hf_row *kept = &list->rows[list->count];

    if (list->count == SIM_ROWS)
        return 1;
    *kept = *row;
    kept->info.key = sim_keys[row->info.key[0] - 'a'];
    kept->info.host = kept->info.name = kept->info.value = "";
    kept->info.value_len = 0;
    list->count++;
    return 0;
}

void sim_store_forget(sim_world *w)
{
    if (w->forget || PLANTED(FORGETS)) {
        sim_trace(w, "the store forgets");
        hf__mem_model_forget(w->model);
    }
}

size_t sim_store_left(sim_world *w)
{
    hf__mem_sweep(w->model, sim_store_now(w));
    return hf__mem_model_entries(w->model) + hf__mem_model_sessions(w->model);
}
