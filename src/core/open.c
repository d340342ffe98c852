/* open.c - hf_open and hf_close: the first and the last of a session.
 *
 * Closing: nobody new comes in, every wait ends with HF_ECLOSED, flights land
 * (they have deadlines), then the holds are given back, the last taken first,
 * and the session is detached, all within one attempt; what could not be said
 * by then the store learns from the lease.  In a forked child only descriptors
 * are closed: everything else is the parent's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/url.h"
#include "core/internal.h"
#include "core/registry.h"

/* The default store: a file in the user's state folder, which is made. */
static int default_url(char *buf, size_t cap, hf_error *err)
{
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    char folder[400];
    int used;

    if (state && state[0] == '/')
        used = snprintf(folder, sizeof folder, "%s/holdfast", state);
    else if (home && home[0] == '/')
        used =
            snprintf(folder, sizeof folder, "%s/.local/state/holdfast", home);
    else
        return hf__error(err, HF_EURL,
                         "no store is named and HOME is not set: give a URL, "
                         "or set HOLDFAST_URL");
    if (used < 0 || (size_t)used >= sizeof folder)
        return hf__error(err, HF_EURL,
                         "the path of the state folder is too "
                         "long: set HOLDFAST_URL");
    for (char *slash = strchr(folder + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700); /* what fails shows at the last one */
        *slash = '/';
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return hf__error(err, HF_EPERM,
                         "the state folder '%.120s' cannot be made: %s; set "
                         "HOLDFAST_URL",
                         folder, strerror(errno));
    snprintf(buf, cap, "sqlite:%s/locks.db", folder);
    return 0;
}

static int make_session(hf__session **ret, const hf_open_options *o,
                        hf_error *err)
{
    hf__session *s = hfd_alloc(sizeof *s);
    const char *name = o->name ? o->name : program_invocation_short_name;
    int code;

    if (!s)
        return hf__error(err, HF_ENOMEM, "out of memory");
    code = hf__lease_init(&s->lease, o->lease_ms, err);
    if (code == 0) {
        s->name = hf__alloc_text(name, strnlen(name, 200));
        if (!s->name)
            code = hf__error(err, HF_ENOMEM, "out of memory");
    }
    if (code) {
        hfd_free(s);
        return code;
    }
    pthread_mutex_init(&s->mu, NULL);
    hf__crew_init(&s->pool, 4);
    hf__crew_init(&s->renewer, 1);
    hf__crew_init(&s->teller, 1);
    hf__list_init(&s->entries);
    hf__list_init(&s->reqs);
    hf__list_init(&s->results);
    hf__list_init(&s->outbox);
    s->fork_mark = hf__process_mark();
    s->max_waiters = o->max_waiters;
    s->recheck_at = s->audit_at = HF_NEVER;
    s->epoll_fd = s->timer_fd = s->wake_fd = s->result_fd = -1;
    hfd_random(&s->rid_prefix, sizeof s->rid_prefix);
    *ret = s;
    return 0;
}

static void free_session(hf__session *s)
{
    hf__crew_stop(&s->pool);
    hf__crew_stop(&s->renewer);
    hf__crew_stop(&s->teller);
    if (s->store)
        s->driver->close(s->store);
    if (s->result_fd >= 0)
        close(s->result_fd);
    hf__url_free(s->url);
    hf__heap_done(&s->timers);
    hfd_free(s->keys);
    hfd_free(s->rids);
    hfd_free(s->name);
    pthread_mutex_destroy(&s->mu);
    hfd_free(s);
}

static int open_session(hf_session **ret, const char *url,
                        const hf_open_options *opt, hf_error *err)
{
    char buf[512];
    hf_open_options o;
    hf__session *s = NULL;
    hf_host host;
    int code;

    if (!ret)
        return hf__error(err, HF_EINVAL, "nowhere to put the session");
    hf__process_begin();
    code = hf__open_options(&o, opt, err);
    if (code)
        return code;
    if (!url) {
        url = secure_getenv("HOLDFAST_URL");
        if (url && !*url)
            url = NULL;
    }
    if (!url) {
        code = default_url(buf, sizeof buf, err);
        url = buf;
    }
    if (code == 0)
        code = make_session(&s, &o, err);
    if (code)
        return code;
    hf__session_host(s, &host);
    code = hf__registry_open(&s->driver, &s->store, &s->url, url, &host,
                             &s->caps, err);
    if (code) {
        free_session(s);
        return code;
    }
    if (hf__handle_new(HF__SESSION, s, &s->id) != 0) {
        free_session(s);
        return hf__error(err, HF_ENOMEM, "out of memory");
    }
    hf__process_add(s);
    *ret = HF_HANDLE(hf_session, s->id);
    return 0;
}

int hf_open(hf_session **ret, const char *url, const hf_open_options *opt,
            hf_error *err)
{
    hf__api_enter();
    return hf__api_leave(open_session(ret, url, opt, err));
}

const char *hf_session_url(const hf_session *handle)
{
    hf__session *s;
    const char *url;

    if (hf__session_enter(handle, &s, NULL) != 0)
        return "";
    url = hf__url_shown(s->url);
    hf__session_leave(s);
    return url;
}

uint32_t hf_session_caps(const hf_session *handle)
{
    hf__session *s;
    uint32_t caps;

    if (hf__session_enter(handle, &s, NULL) != 0)
        return 0;
    caps = s->caps & 0xffff;
    hf__session_leave(s);
    return caps;
}

int hf_session_life_fd(const hf_session *handle)
{
    hf__session *s;
    int fd = -1;

    if (hf__session_enter(handle, &s, NULL) == 0) {
        if (s->driver->life_fd)
            fd = s->driver->life_fd(s->store);
        hf__session_leave(s);
    }
    return fd;
}

int hf_session_stats(const hf_session *handle, hf_stats *ret)
{
    hf__session *s;
    int code = ret ? hf__session_enter(handle, &s, NULL) : HF_EINVAL;

    if (code)
        return code;
    *ret = s->stats;
    ret->holds = s->holds;
    ret->waiters = s->waiters;
    hf__session_leave(s);
    return 0;
}

static void end_waits(hf__session *s)
{
    HF_LIST_EACH(node, &s->reqs) {
        hf__req *req = HF_CONTAINER(node, hf__req, all);

        if (req->kind == HF_OP_JOIN)
            hf__req_stop(req, HF_ECLOSED);
    }
}

/* From now on no handle finds its object; those inside are counted. */
static void drop_handles(hf__session *s)
{
    HF_LIST_EACH(node, &s->reqs)
        hf__handle_drop(HF_CONTAINER(node, hf__req, all)->id, HF__REQUEST);
    HF_LIST_EACH(entry_node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(entry_node, hf__entry, of_session);

        HF_LIST_EACH(node, &entry->holds)
            hf__handle_drop(HF_CONTAINER(node, hf__hold, node)->id, HF__HOLD);
    }
}

static void wait_until_calm(hf__session *s)
{
    while (atomic_load(&s->calls) > 0 || s->flights > 0 ||
           !hf__list_empty(&s->outbox))
        hf__session_sleep(s, &s->calm, hfd_now() + HF_MS(100));
}

static void detach_holds(hf__entry *entry)
{
    hf__node *node;

    while ((node = hf__list_first(&entry->holds)) != NULL) {
        hf__hold *hold = HF_CONTAINER(node, hf__hold, node);

        atomic_fetch_add(&hold->refs, 1);
        hf__hold_detach(hold);
        hf__hold_unref(hold);
    }
}

/* Give everything back, the last taken first.  The list may change while the
 * store is asked, but nothing new comes in. */
static void leave_all(hf__session *s, hf_nsec until)
{
    while (!hf__list_empty(&s->entries)) {
        hf__entry *entry = HF_CONTAINER(s->entries.prev, hf__entry, of_session);

        hf__entry_ref(entry);
        detach_holds(entry);
        hf__entry_settle(entry);
        if (entry->state != HF_ENTRY_GONE && hfd_now() < until)
            hf__leave_here(entry, until, false);
        if (entry->state != HF_ENTRY_GONE)
            hf__entry_gone(entry);
        hf__entry_unref(entry);
    }
}

static void detach_here(hf__session *s, hf_nsec until)
{
    hf_op op;

    if (s->attach != HF_ATTACH_DONE)
        return;
    hf__op_init(s, &op, HF_OP_DETACH);
    op.deadline = until;
    s->attach = HF_ATTACH_NONE;
    hf__op_run(s, &op);
}

static void *look_at_session(void *object)
{
    return object; /* the drop below decides who closes */
}

static void close_session(hf_session *handle)
{
    hf__session *s;
    void *object;
    hf_nsec until;
    int code = hf__handle_find(handle, HF__SESSION, &object, look_at_session);

    if (code == HF_EFORKED) {
        s = hf__handle_peek_inherited(handle, HF__SESSION);
        if (s) {
            s->driver->abandon(s->store);
            hf__keeper_abandon(s);
        }
        return;
    }
    if (code || !hf__handle_drop((uint64_t)(uintptr_t)handle, HF__SESSION))
        return; /* NULL, or another thread closes it */
    s = object;
    hf__process_remove(s);
    hf__session_lock(s);
    s->closing = true;
    end_waits(s);
    drop_handles(s);
    wait_until_calm(s);
    until = hfd_now() + s->lease.attempt;
    leave_all(s, until);
    detach_here(s, until);
    wait_until_calm(s);
    while (!hf__list_empty(&s->reqs))
        hf__req_free(HF_CONTAINER(s->reqs.next, hf__req, all));
    hf__session_unlock(s);
    hf__keeper_stop(s);
    free_session(s);
}

void hf_close(hf_session *handle)
{
    hf__api_enter();
    close_session(handle);
    hf__api_leave(0);
}

void hf__session_abandon_owner(hf__session *s, uint64_t owner)
{
    hf__session_lock(s);
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->hold_count == 0 || entry->owner != owner || s->closing)
            continue;
        hfd_log(HF_LOG_WARN,
                "a thread ended while it held '%.*s': releasing it",
                (int)entry->key->len, entry->key->text);
        hf__entry_ref(entry);
        detach_holds(entry);
        if (entry->told != HF_LOST)
            hf__leave_later(entry);
        hf__entry_settle(entry);
        hf__entry_unref(entry);
    }
    hf__session_unlock(s);
}

/* One whose minimum the store has to be told; NULL: none. */
static hf__entry *next_to_keep(hf__session *s)
{
    HF_LIST_EACH(node, &s->entries) {
        hf__entry *entry = HF_CONTAINER(node, hf__entry, of_session);

        if (entry->state == HF_ENTRY_GRANTED && entry->at_least)
            return entry;
    }
    return NULL;
}

void hf__session_goodbye(hf__session *s, hf_nsec budget)
{
    hf_nsec until = hfd_now() + budget;
    hf__entry *entry;

    hf__session_lock(s);
    s->closing = true;
    /* From the head each time: the other threads still run, and the list may
     * be another one when the store has answered. */
    while (hfd_now() < until && (entry = next_to_keep(s)) != NULL) {
        hf__entry_ref(entry);
        hf__leave_here(entry, until, false);
        hf__entry_unref(entry);
    }
    detach_here(s, until);
    hf__session_unlock(s);
}
