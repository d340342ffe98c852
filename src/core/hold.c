/* hold.c - handles on what is held: token, state, value, release.
 *
 * A hold is one handle on a granted entry; the owner's second take makes a
 * second handle on the same entry, with the same token, and the last release
 * gives the entry back.  State is computed at each question from the clock,
 * never only remembered: a process that was stopped for an hour finds its hold
 * lost before any call says "held". */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core/internal.h"

int hf__hold_new(hf__hold **ret)
{
    hf__hold *hold = hfd_alloc(sizeof *hold);

    if (!hold)
        return HF_ENOMEM;
    atomic_init(&hold->refs, 1);
    hold->result.kind = HF_RESULT_CHANGE;
    if (hf__handle_new(HF__HOLD, hold, &hold->id) != 0) {
        hfd_free(hold);
        return HF_ENOMEM;
    }
    *ret = hold;
    return 0;
}

void hf__hold_unref(hf__hold *hold)
{
    if (atomic_fetch_sub(&hold->refs, 1) > 1)
        return;
    hf__handle_drop(hold->id, HF__HOLD);
    if (hold->entry) {
        hf__list_remove(&hold->result.node);
        hf__entry_unref(hold->entry);
    }
    hfd_free(hold);
}

/* With the table of handles locked: the session cannot be closed under us
 * before this call has ended. */
static void *take_hold(void *object)
{
    hf__hold *hold = object;

    atomic_fetch_add(&hold->refs, 1);
    if (hold->entry)
        atomic_fetch_add(&hold->entry->s->calls, 1);
    return hold;
}

int hf__hold_enter(hf_hold *handle, hf__hold **ret, hf_error *err)
{
    void *object;
    int code;

    hf__api_enter();
    code = hf__handle_find(handle, HF__HOLD, &object, take_hold);
    if (code)
        hf__api_leave(code);
    if (code == HF_EFORKED)
        return hf__error(err, code,
                         "the hold belongs to the parent process: open a "
                         "session of your own after fork");
    if (code == HF_EINVAL)
        return hf__error(err, code, "the hold is NULL");
    if (code)
        return hf__error(err, code, "this hold is released already");
    *ret = object;
    hf__session_lock((*ret)->entry->s);
    if ((*ret)->spent || (*ret)->entry->s->closing) {
        code = (*ret)->spent ? HF_ENOTHELD : HF_ECLOSED;
        hf__hold_leave(*ret);
        return hf__error(err, code,
                         code == HF_ENOTHELD ? "this hold is released already"
                                             : "the session is being closed");
    }
    return 0;
}

void hf__hold_leave(hf__hold *hold)
{
    hf__session *s = hold->entry->s;

    hf__hold_unref(hold);
    hf__session_leave(s);
}

bool hf__hold_detach(hf__hold *hold)
{
    hf__entry *entry = hold->entry;

    hold->spent = true;
    hf__list_remove(&hold->node);
    hf__result_drop(entry->s, &hold->result);
    hf__handle_drop(hold->id, HF__HOLD);
    hold->collected = false;
    if (entry->owner == hf__thread_serial())
        hf__thread_count_hold(-1);
    entry->hold_count--;
    hf__hold_unref(hold); /* the caller has one of his own */
    return entry->hold_count == 0;
}

int hf__hold_may_release(hf__hold *hold, hf_error *err)
{
    const hf__entry *entry = hold->entry;
    char key[80];

    if (entry->owner >> 63 && entry->owner != HF_OWNER_HOLD &&
        entry->owner != hf__thread_serial())
        return hf__error(
            err, HF_EOWNER,
            "'%s' is held by another thread, which alone may "
            "release it",
            hf__error_key(key, sizeof key, entry->key->text, entry->key->len));
    return 0;
}

int hf__lost_error(const hf__entry *entry, int code, hf_error *err)
{
    char key[80];

    return hf__error(
        err, code, "'%s' (token %llu): %s",
        hf__error_key(key, sizeof key, entry->key->text, entry->key->len),
        (unsigned long long)entry->token,
        code == HF_EUNKNOWN ? "the clock jumped; asking the store"
                            : hf_strerror(code));
}

int hf_hold_check(hf_hold *handle, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);

    if (code)
        return code;
    code = hf__entry_check(hold->entry, hfd_now());
    if (code)
        hf__lost_error(hold->entry, code, err);
    hf__hold_leave(hold);
    return code;
}

hf_state hf_hold_state(hf_hold *handle)
{
    hf__hold *hold;
    hf_state state;

    if (hf__hold_enter(handle, &hold, NULL) != 0)
        return HF_RELEASED;
    hf__entry_check(hold->entry, hfd_now());
    state = hold->entry->told;
    hf__hold_leave(hold);
    return state;
}

uint64_t hf_hold_token(hf_hold *handle)
{
    hf__hold *hold;
    uint64_t token;

    if (hf__hold_enter(handle, &hold, NULL) != 0)
        return 0;
    token = hold->entry->token;
    hf__hold_leave(hold);
    return token;
}

int64_t hf_hold_remaining_ms(hf_hold *handle)
{
    hf__hold *hold;
    hf_nsec left;

    if (hf__hold_enter(handle, &hold, NULL) != 0)
        return 0;
    left = hf__entry_lost_at(hold->entry) - hfd_now();
    hf__hold_leave(hold);
    return left > 0 ? left / 1000000 : 0;
}

int hf_hold_fd(hf_hold *handle)
{
    hf__hold *hold;
    int fd = hf__hold_enter(handle, &hold, NULL);

    if (fd)
        return fd;
    if (hold->entry->fd < 0) {
        fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        hold->entry->fd = fd;
        hf__entry_arm(hold->entry);
    }
    fd = hold->entry->fd >= 0 ? hold->entry->fd : HF_EFULL;
    hf__hold_leave(hold);
    return fd;
}

int hf_hold_value(hf_hold *handle, void *buf, size_t cap, size_t *ret_len)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, NULL);
    const hf__entry *entry;

    if (code)
        return code;
    entry = hold->entry;
    if (entry->value_len && cap)
        memcpy(buf, entry->value,
               entry->value_len < cap ? entry->value_len : cap);
    if (ret_len)
        *ret_len = entry->value_len;
    hf__hold_leave(hold);
    return 0;
}

/* What hf_release answers without asking the store; 1: ask. */
int hf__release_locally(hf__hold *hold, hf_nsec now)
{
    hf__entry *entry = hold->entry;
    int code = hf__entry_check(entry, now);
    bool last = hf__hold_detach(hold);

    if (code && code != HF_EUNKNOWN) {
        if (last) {
            if (entry->state == HF_ENTRY_GRANTED)
                hf__leave_later(entry); /* lost here, but still in the store */
            hf__entry_settle(entry);
            if (HF_MUTANT(RELEASE_OK_WHEN_LOST))
                return 0;
        }
        return code;
    }
    if (!last)
        return code; /* HF_EUNKNOWN: the clock is in doubt */
    /* What may be over is not passed on, and not told as held to the end. */
    if (code && !HF_MUTANT(HANDOVER_WHEN_LOST))
        return 1;
    return hf__line_hand_over(entry, now) ? 0 : 1;
}

int hf_release(hf_hold *handle, hf_error *err)
{
    hf__hold *hold;
    int code = hf__hold_enter(handle, &hold, err);
    hf_nsec now = hfd_now();

    if (code)
        return code;
    code = hf__hold_may_release(hold, err);
    if (code == 0) {
        hf__entry *entry = hold->entry;

        code = hf__release_locally(hold, now);
        if (code == 1)
            code =
                hf__leave_here(entry, now + 2 * entry->s->lease.attempt, true);
        if (code)
            hf__lost_error(entry, code, err);
        if (code == HF_EUNKNOWN)
            hf__error(err, code,
                      "the store did not answer: '%.60s' is free at the end of "
                      "the lease at the latest",
                      entry->key->text);
    }
    hf__hold_leave(hold);
    return code;
}
