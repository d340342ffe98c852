/* answer.c - what the mem store says of an entry.
 *
 * Turns an entry into the answer part of an hf_place; changes nothing in the
 * store.  A broken entry that still stands in its queue answers as gone: its
 * owner must not learn of a grant, or lengthen a lease, that ends without it.
 *
 * Without marks the answer is the seats ahead, all unmarked, and the core
 * applies the rule itself. */
#include "state.h"

void hf__mem_refuse(hf_op *op, int code, const char *text)
{
    hfd_error(&op->error, code, "mem", 0, "%s", text);
}

void hf__mem_fail(hf_op *op, int code, const char *text)
{
    op->outcome = HF_NOT_APPLIED;
    hf__mem_refuse(op, code, text);
}

hf_nsec hf__mem_add_time(hf_nsec at, hf_nsec span)
{
    return span > HF_NEVER - at ? HF_NEVER : at + span;
}

hf_nsec hf__mem_time_to_look(const mem_queue *queue, hf_nsec now)
{
    hf_nsec first = HF_NEVER;

    MEM_EACH(at, &queue->entries) {
        const mem_entry *entry = MEM_OF(at, mem_entry, in_queue);
        hf_nsec end = hf__mem_entry_end(entry);

        if (!entry->granted)
            break;
        if (end < first)
            first = end;
    }
    return first == HF_NEVER ? 0 : first > now ? first - now : 1;
}

void hf__mem_answer_gone(hf_place *place, int reason)
{
    place->verdict = HF_GONE;
    place->reason = reason;
    place->token = 0;
    place->remaining = place->look_in = 0;
}

/* HF_JUDGE with the seats ahead of the entry and its own; false: no memory. */
static bool answer_seats(const mem_entry *entry, hf_place *place)
{
    size_t n = 0;
    hf_seat *seats;

    MEM_EACH(at, &entry->queue->entries) {
        n++;
        if (MEM_OF(at, mem_entry, in_queue) == entry)
            break;
    }
    seats = hfd_alloc(n * sizeof *seats);
    if (!seats)
        return false;
    place->seats = seats;
    place->seat_count = n;
    MEM_EACH(at, &entry->queue->entries) {
        const mem_entry *seat = MEM_OF(at, mem_entry, in_queue);

        *seats++ = (hf_seat){
            .num = seat->num, .mode = seat->mode, .places = seat->places};
        if (seat == entry)
            break;
    }
    place->verdict = HF_JUDGE;
    return true;
}

bool hf__mem_answer_place(const hf__mem_store *store, const mem_entry *entry,
                          hf_place *place, hf_nsec now)
{
    if (!entry->queue || entry->closed || entry->broken) {
        hf__mem_answer_gone(place, entry->broken   ? HF_EFORCED
                                   : entry->closed ? HF_ENOTHELD
                                                   : entry->reason);
        return true;
    }
    if (store->marks)
        place->verdict = entry->granted ? HF_GRANTED : HF_WAITS;
    else if (!answer_seats(entry, place))
        return false;
    place->reason = 0;
    place->num = entry->num;
    place->run = entry->run;
    place->token = entry->token;
    place->remaining = entry->ends == HF_NEVER ? 0 : entry->ends - now;
    place->look_in =
        entry->granted ? 0 : hf__mem_time_to_look(entry->queue, now);
    return true;
}

int hf__mem_reason_of(const mem_session *session)
{
    return session && !session->alive ? session->reason : HF_ENOTHELD;
}

mem_entry *hf__mem_open_entry(hf__mem_store *store, hf_op *op,
                              const mem_session *session)
{
    mem_entry *entry = hf__mem_find_entry(store, &op->place->rid);

    if (!entry) {
        hf__mem_answer_gone(op->place, hf__mem_reason_of(session));
        return NULL;
    }
    if (!entry->queue || entry->closed) {
        hf__mem_answer_gone(op->place,
                            entry->closed ? HF_ENOTHELD : entry->reason);
        return NULL;
    }
    return entry;
}
