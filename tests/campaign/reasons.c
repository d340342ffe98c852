/* reasons.c - which fault can be the reason of what: of a refusal, of a loss,
 * of two holders.
 *
 * An answer that blames the store needs a fault that reached the store, the
 * way to it, or the process itself.  What it breaks is felt for a while after
 * it was healed: elections, a quarantine of the longest lease and the lag, the
 * last word of a server until there is another.  Two leases and five seconds
 * are more than any store of ours needs.  A machine that is too busy is a
 * reason, too, but only if the history shows it. */
#include "case.h"

#include <holdfast/holdfast.h>

#define MS INT64_C(1000000)

bool camp_struck(const camp_case *c, int fault, int64_t from, int64_t to)
{
    for (size_t i = 0; i < c->window_count; i++) {
        if (c->windows[i].fault == fault && c->windows[i].from <= to &&
            c->windows[i].to >= from)
            return true;
    }
    return false;
}

bool camp_faulty(const camp_case *c, int64_t from, int64_t to)
{
    for (size_t i = 0; i < c->window_count; i++) {
        if (c->windows[i].from <= to && c->windows[i].to >= from)
            return true;
    }
    return false;
}

/* ---- Two holders -------------------------------------------------------- */

/* A server that stands still grants nothing: only when it goes on may it serve
 * what it knows no better (6, 19), until it hears of its successor, and what
 * it renewed then lasts a lease.  The conductor writes down that it healed a
 * moment after it did. */
static bool may_be_two(const camp_window *w, int64_t from, int64_t to)
{
    int64_t begin = w->from, end = w->to;

    if (w->fault == 6 || w->fault == 19) {
        if (w->healed == 0)
            return false;
        if (w->healed - 500 * MS > begin)
            begin = w->healed - 500 * MS;
        end += 2000 * MS;
    }
    return begin <= to && end >= from;
}

bool camp_excused(camp_case *c, int64_t from, int64_t to)
{
    for (size_t i = 0; i < c->window_count; i++) {
        const camp_window *w = &c->windows[i];

        if (w->fault > 0 && w->fault < CAMP_FAULTS &&
            (c->excuses >> w->fault & 1) && may_be_two(w, from, to)) {
            c->counts.allowed++;
            return true;
        }
    }
    return false;
}

/* ---- Refusals and losses ------------------------------------------------ */

/* Some reach neither server nor network nor the session of a client: a wall
 * clock (of which a check may be in doubt), a fork, odd names.  Who is killed
 * harms nobody else's lease.  A store that is tidied up may have no time for
 * statements: a loss only if that took so long that nobody could renew. */
static bool can_cause(const camp_case *c, const camp_window *w, hf_class class,
                      int64_t at)
{
    int64_t end = w->healed ? w->healed : at;

    switch (w->fault) {
    case 0: /* nobody was struck */
    case 25:
    case 28:
        return false;
    case 18:
        return class == HF_CLASS_UNKNOWN;
    case 1:
    case 2:
        return class != HF_CLASS_LOST;
    case 27:
        return class != HF_CLASS_LOST || end - w->from > c->lease / 2;
    default:
        return true;
    }
}

bool camp_reason(const camp_case *c, int code, uint32_t life, int64_t from,
                 int64_t to)
{
    hf_class class = hf_error_class(code);
    int64_t slack = 2 * c->lease + 5000 * MS;
    int64_t calm = camp_calm_since(c, to);

    for (size_t i = 0; i < c->window_count; i++) {
        const camp_window *w = &c->windows[i];

        if (w->from <= to && (!w->healed || w->healed + slack >= from) &&
            can_cause(c, w, class, to))
            return true;
    }
    /* A store that is new to a strict session is in quarantine at first; and
     * servers may need longer than that to be whole again, which is when the
     * conductor says that all is calm: from then on I9 has the word. */
    if (class != HF_CLASS_LOST &&
        (from < c->begin + slack || (calm && from < calm + slack)))
        return true;
    /* An attempt has a sixth of a lease: who finds the store that slow is in
     * doubt, and loses nothing by it. */
    return camp_busy(c, life, from - 2 * c->lease, to,
                     class == HF_CLASS_LOST ? c->lease / 4 : c->lease / 8);
}

/* Somebody stood still for so long, or somebody else's release took so long
 * although it was done: a store that had no time. */
bool camp_busy(const camp_case *c, uint32_t life, int64_t from, int64_t to,
               int64_t so_long)
{
    static int64_t still[CAMP_LIVES];

    for (size_t i = 0; i < CAMP_LIVES; i++)
        still[i] = 0;
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        int64_t a = r->called > from ? r->called : from;
        int64_t b = r->at < to ? r->at : to;

        if (b <= a)
            continue;
        if (r->kind == CAMP_STALL)
            still[r->life] += b - a;
        if (still[r->life] >= so_long ||
            (r->kind == CAMP_RELEASED && r->life != life && r->code == 0 &&
             r->at - r->called >= so_long))
            return true;
    }
    return false;
}

int64_t camp_calm_since(const camp_case *c, int64_t at)
{
    int64_t since = 0;

    for (size_t i = 0; i < c->calm_count && c->calms[i] <= at; i++)
        since = c->calms[i];
    for (size_t i = 0; i < c->window_count; i++) {
        if (c->windows[i].from > since && c->windows[i].from <= at)
            return 0;
    }
    return since;
}
