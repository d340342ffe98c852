/* history.c - the record of one simulated history, and how it is printed.
 *
 * A flat array, cleared between histories and never shrunk, so that recording
 * costs a few stores.  Knows nothing of what the events mean. */
#include "sim/history.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

enum { EVENTS_MAX = 1 << 16 };

sim_event *sim_record(sim_history *history, sim_event_kind kind, int64_t at)
{
    static sim_event spill;
    sim_event *event = &spill;

    if (history->count == history->room) {
        size_t room = history->room ? history->room * 2 : 4096;
        sim_event *grown = NULL;

        if (room <= EVENTS_MAX)
            grown = realloc(history->events, room * sizeof *grown);
        if (!grown) {
            history->full = true;
            return event;
        }
        history->events = grown;
        history->room = room;
    }
    event = &history->events[history->count++];
    memset(event, 0, sizeof *event);
    event->kind = (uint8_t)kind;
    event->at = at;
    return event;
}

void sim_history_clear(sim_history *history)
{
    history->count = 0;
    history->full = false;
}

void sim_history_free(sim_history *history)
{
    free(history->events);
    *history = (sim_history){0};
}

#define SIM_EVENT_TEXT(name, text) text,
static const char *const texts[] = {SIM_EVENT_MAP(SIM_EVENT_TEXT)};

void sim_print_event(FILE *out, const sim_event *event)
{
    static const char *const modes[] = {"alone", "shared", "permit"};

    fprintf(out, "%12.6f  ", (double)event->at / 1e9);
    switch (event->kind) {
    case SIM_CALM:
    case SIM_SERVED:
    case SIM_END:
        fprintf(out, "%s", texts[event->kind]);
        break;
    case SIM_BREAK:
        fprintf(out, "%s of key %d", texts[event->kind], event->key);
        break;
    case SIM_STORE_GRANT:
    case SIM_STORE_END:
        fprintf(out, "%s key %d to client %d: token %llu, run %u, place %llu",
                texts[event->kind], event->key, event->life,
                (unsigned long long)event->token, event->count,
                (unsigned long long)event->num);
        break;
    default:
        fprintf(out, "client %d, key %d, request %u (%s) %s", event->life,
                event->key, event->task, modes[event->mode % 3],
                texts[event->kind]);
        break;
    }
    if (event->token && event->kind < SIM_STORE_GRANT)
        fprintf(out, ", token %llu", (unsigned long long)event->token);
    if (event->until)
        fprintf(out, ", until %.6f", (double)event->until / 1e9);
    if (event->code)
        fprintf(out, ", %s", hf_error_name(event->code));
    if (event->flags & SIM_TRY)
        fprintf(out, ", does not wait");
    if (event->flags & SIM_DOUBT)
        fprintf(out, ", in doubt");
    if (event->flags & SIM_AGAIN)
        fprintf(out, ", again");
    if (event->flags & SIM_STANDING)
        fprintf(out, ", which the store still has");
    fputc('\n', out);
}
