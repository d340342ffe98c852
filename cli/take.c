/* take.c - taking one lock for a command: options, waiting, telling.
 *
 * `run` and `hold` differ in what they do with a lock, not in how they get it.
 * A busy lock is an answer: silent as with flock(1), unless -v or --json asks
 * who has it.  Knows nothing of the command that is run.
 *
 * The wait needs no thread and no handler: the caller has the ending signals
 * blocked and gives a signalfd, which is the library's cancel descriptor. */
#include "take.h"

#include <string.h>

#include "entry.h"
#include "guardian.h"
#include "say.h"

void take_init(struct take *t)
{
    *t = (struct take){.wait_ms = HF_FOREVER, .conflict_status = STATUS_BUSY};
}

static int take_number(struct take *t, const struct args *a, int id,
                       const char *value)
{
    uint64_t n = 0;
    if (id == ARG_CONFLICT) {
        if (!arg_number(a, "-E", value, 0, 255, &n))
            return ARG_BAD;
        t->conflict_status = (int)n;
    } else {
        if (!arg_number(a, "--slots", value, 1, 1000000, &n))
            return ARG_BAD;
        t->slots = (uint32_t)n;
    }
    return 1;
}

int take_option(struct take *t, const struct args *a, int id, const char *value)
{
    bool good = true;
    int64_t ms = 0;
    switch (id) {
    case ARG_NONBLOCK:
        t->wait_ms = 0;
        break;
    case ARG_WAIT:
        good = arg_span(a, "-w", value, &ms);
        /* -n stays -n, in either order. */
        t->wait_ms = ms < t->wait_ms ? ms : t->wait_ms;
        break;
    case ARG_SHARED:
        t->mode = HF_SHARED;
        break;
    case ARG_EXCLUSIVE:
        t->mode = HF_EXCLUSIVE;
        break;
    case ARG_AT_MOST:
    case ARG_AT_LEAST:
        good = arg_span(a, id == ARG_AT_MOST ? "--at-most" : "--at-least",
                        value, &ms);
        if (good && ms == 0) {
            say_usage(a->command, "a time of 0 says nothing; leave it out");
            good = false;
        }
        *(id == ARG_AT_MOST ? &t->at_most_ms : &t->at_least_ms) = ms;
        break;
    case ARG_CONFLICT:
    case ARG_SLOTS:
        return take_number(t, a, id, value);
    default:
        return common_take(&t->common, a, id, value);
    }
    return good ? 1 : ARG_BAD;
}

int take_check(const struct take *t, const struct args *a)
{
    if (t->slots > 0 && t->mode == HF_SHARED)
        return say_usage(a->command, "--slots and --shared exclude each other");
    if (t->at_most_ms > 0 && t->at_least_ms > t->at_most_ms)
        return say_usage(a->command, "--at-least is longer than --at-most");
    return 0;
}

/* Why a try or a timed wait failed, for those who asked. */
static void say_busy(const struct take *t, hf_session *s)
{
    struct entry_list list = {0};
    if (!say_is_verbose() && !say_is_json())
        return;
    if (entry_collect(s, t->key, true, &list, NULL) == 0)
        entry_say_busy(t->key, &list);
    entry_free(&list);
}

static void say_held(const struct take *t, const struct taken *taken,
                     int64_t waited_ms)
{
    struct text line = {0};
    if (!t->tells)
        return;
    if (say_is_json()) {
        struct json j;
        event_begin(&j, &line, "held");
        json_bytes(&j, "key", t->key, strlen(t->key));
        json_unsigned(&j, "token", taken->token);
        json_number(&j, "waited_ms", waited_ms);
        event_end(&j);
    } else if (say_is_verbose()) {
        text_put(&line, "got ");
        text_name(&line, t->key, strlen(t->key));
        text_format(&line, " (token %llu) after ",
                    (unsigned long long)taken->token);
        text_span(&line, waited_ms);
        say_text(&line);
    }
}

bool take_lock(const struct take *t, int cancel_fd, struct taken *ret,
               int *ret_status)
{
    hf_error err;
    hf_session *s = NULL;
    say_log();
    int64_t begin = boottime_ns();
    *ret_status = common_open(&t->common, &s);
    if (*ret_status != 0)
        return false;
    hf_lock_options opt = {HF_LOCK_OPTIONS,
                           .wait_ms = t->wait_ms,
                           .mode = t->slots > 0 ? HF_PERMIT : t->mode,
                           .places = t->slots,
                           .at_most_ms = t->at_most_ms,
                           .at_least_ms = t->at_least_ms,
                           .cancel_fd = cancel_fd};
    int code = hf_lock(s, t->key, &opt, &ret->hold, &err);
    if (code == 0) {
        ret->session = s;
        ret->token = hf_hold_token(ret->hold);
        ret->lease_ms =
            t->common.lease_ms > 0 ? t->common.lease_ms : TAKE_LEASE_DEFAULT_MS;
        ret->granted_ns = boottime_ns();
        say_held(t, ret, (ret->granted_ns - begin) / 1000000);
        return true;
    }
    if (code == HF_EBUSY || code == HF_ETIMEDOUT) {
        *ret_status = t->conflict_status;
        say_busy(t, s);
    } else if (code == HF_ECANCELED) {
        *ret_status = TAKE_CANCELLED;
    } else {
        *ret_status = say_failure(&err);
    }
    hf_close(s);
    return false;
}

int take_back(const struct take *t, struct taken *taken, int status)
{
    hf_error err;
    int code = hf_release(taken->hold, &err);
    hf_close(taken->session);
    if (hf_error_class(code) == HF_CLASS_LOST && status != STATUS_LOST) {
        struct text line = {0};
        text_put(&line, "lost ");
        text_name(&line, t->key, strlen(t->key));
        text_format(&line, " (token %llu) before the end: %s",
                    (unsigned long long)taken->token, err.text);
        say_text(&line);
        return STATUS_LOST;
    }
    if (code == HF_EUNKNOWN)
        say_warn("%s", err.text);
    return status;
}
