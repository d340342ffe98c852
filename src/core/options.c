/* options.c - defaults and limits of what a caller asks for.
 *
 * Option structs grow: a caller compiled against an older header passes a
 * smaller one (the rest is zero), one compiled against a newer header a larger
 * one, which is accepted only while what we do not know is zero. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/internal.h"

static int copy_options(void *ret, size_t known, const void *opt, size_t size,
                        const char *name, hf_error *err)
{
    const uint8_t *bytes = opt;

    memset(ret, 0, known);
    if (size < sizeof(size_t) || size > known + 1024)
        return hf__error(err, HF_EINVAL,
                         "%s has no size that makes sense (%zu): initialise "
                         "it with its macro",
                         name, size);
    for (size_t i = known; i < size; i++) {
        if (bytes[i])
            return hf__error(err, HF_EINVAL,
                             "%s asks for something that this version (%s) "
                             "does not know",
                             name, HF_VERSION_TEXT);
    }
    memcpy(ret, opt, size < known ? size : known);
    return 0;
}

static int check_ms(const char *name, int64_t ms, bool forever, hf_error *err)
{
    if (ms < 0 || (ms > HF_MS_MAX && !(forever && ms == HF_FOREVER)))
        return hf__error(err, HF_EINVAL,
                         "%s is %lld ms: from 0 to %lld%s are allowed", name,
                         (long long)ms, (long long)HF_MS_MAX,
                         forever ? ", or HF_FOREVER" : "");
    return 0;
}

int hf__open_options(hf_open_options *ret, const hf_open_options *opt,
                     hf_error *err)
{
    static const hf_open_options none = {HF_OPEN_OPTIONS};
    int code;

    if (!opt)
        opt = &none;
    code =
        copy_options(ret, sizeof *ret, opt, opt->size, "hf_open_options", err);
    if (code == 0)
        code = check_ms("lease_ms", ret->lease_ms, false, err);
    if (code)
        return code;
    if (ret->lease_ms == 0)
        ret->lease_ms = 30000;
    if (ret->max_waiters == 0)
        ret->max_waiters = 10000;
    if (ret->name && strlen(ret->name) > 200)
        return hf__error(err, HF_EINVAL,
                         "the session's name is longer than 200 bytes");
    return 0;
}

int hf__key_check(const char *key, size_t *ret_len, hf_error *err)
{
    size_t len = key ? strnlen(key, HF_KEY_MAX + 1) : 0;

    if (!key || len == 0)
        return hf__error(err, HF_EINVAL, "the key is empty: 1 to %d bytes",
                         HF_KEY_MAX);
    if (len > HF_KEY_MAX)
        return hf__error(err, HF_EINVAL, "the key is longer than %d bytes",
                         HF_KEY_MAX);
    *ret_len = len;
    return 0;
}

static int resolve_owner(hf__want *want, uint64_t owner, bool blocking,
                         hf_error *err)
{
    if (owner == HF_OWNER_DEFAULT)
        owner = blocking ? HF_OWNER_THREAD : HF_OWNER_HOLD;
    if (owner == HF_OWNER_THREAD) {
        if (!blocking)
            return hf__error(err, HF_EINVAL,
                             "HF_OWNER_THREAD is not for hf_lock_start: say a "
                             "number, or HF_OWNER_HOLD");
        owner = hf__thread_serial();
    } else if (owner != HF_OWNER_HOLD && owner >> 63) {
        return hf__error(err, HF_EINVAL,
                         "owner numbers of your own are below 2^63");
    }
    want->owner = owner;
    return 0;
}

static int check_caps(const hf__want *want, uint32_t caps, hf_error *err)
{
    if (want->mode == HF_SHARED && !(caps & HF_CAP_SHARED))
        return hf__error(err, HF_ENOTSUP, "this store has no shared locks");
    if (want->mode == HF_PERMIT && !(caps & HF_CAP_PERMIT))
        return hf__error(err, HF_ENOTSUP, "this store has no permits");
    if ((want->lease || want->at_least) && !(caps & HF_CAP_FIXED_LEASE))
        return hf__error(err, HF_ENOTSUP,
                         "this store has no fixed leases (lease_ms, "
                         "at_least_ms)");
    if (want->value_len && !(caps & HF_CAP_VALUE))
        return hf__error(err, HF_ENOTSUP, "this store keeps no values");
    return 0;
}

static int check_lock(const hf_lock_options *o, hf_error *err)
{
    int code = check_ms("wait_ms", o->wait_ms, true, err);

    if (code == 0)
        code = check_ms("lease_ms", o->lease_ms, false, err);
    if (code == 0)
        code = check_ms("at_most_ms", o->at_most_ms, false, err);
    if (code == 0)
        code = check_ms("at_least_ms", o->at_least_ms, false, err);
    if (code)
        return code;
    if ((unsigned)o->mode > HF_PERMIT)
        return hf__error(err, HF_EINVAL, "mode %d is none of ours",
                         (int)o->mode);
    if ((o->mode == HF_PERMIT) != (o->places > 0) || o->places > 1000000)
        return hf__error(err, HF_EINVAL,
                         "places is for HF_PERMIT alone: from 1 to 1000000");
    if (o->lease_ms && o->at_most_ms)
        return hf__error(err, HF_EINVAL,
                         "lease_ms and at_most_ms exclude each other: a fixed "
                         "lease is its own cap");
    if (o->lease_ms && o->lease_ms < 100)
        return hf__error(err, HF_EINVAL, "lease_ms is at least 100");
    if (o->value_len > HF_VALUE_MAX || (o->value_len && !o->value))
        return hf__error(err, HF_EINVAL, "a value has at most %d bytes",
                         HF_VALUE_MAX);
    return 0;
}

int hf__break_options(hf_break_options *ret, const hf_break_options *opt,
                      hf_error *err)
{
    static const hf_break_options none = {HF_BREAK_OPTIONS};

    if (!opt)
        opt = &none;
    return copy_options(ret, sizeof *ret, opt, opt->size, "hf_break_options",
                        err);
}

int hf__lock_options(hf_lock_options *ret, const hf_lock_options *opt,
                     hf_error *err)
{
    static const hf_lock_options none = {HF_LOCK_OPTIONS,
                                         .wait_ms = HF_FOREVER};

    if (!opt)
        opt = &none;
    return copy_options(ret, sizeof *ret, opt, opt->size, "hf_lock_options",
                        err);
}

int hf__want_from(hf__want *want, hf__manner *manner, const hf_lock_options *o,
                  bool blocking, uint32_t caps, hf_error *err)
{
    int code = check_lock(o, err);

    if (code)
        return code;
    *want = (hf__want){
        .mode = o->mode,
        .places = o->places,
        .try_only = o->wait_ms == 0,
        .lease = HF_MS(o->lease_ms),
        .at_most = HF_MS(o->at_most_ms),
        .at_least = HF_MS(o->at_least_ms),
        .value = o->value,
        .value_len = (uint16_t)o->value_len,
    };
    *manner = (hf__manner){
        .wait = hf__ms_to_ns(o->wait_ms),
        .cancel_fd = o->cancel_fd > 0 ? o->cancel_fd : -1,
        .on_change = o->on_change,
        .user = o->user,
    };
    code = resolve_owner(want, o->owner, blocking, err);
    return code ? code : check_caps(want, caps, err);
}
