/* mem.c - the mem: driver: the model behind a mutex, shared by name.
 *
 * Sessions of one process that open `mem:NAME` meet in one space, which lives
 * while one of them is open; `mem:` alone is private.  The model decides
 * everything; this file finds the space, guards it, reads the store's clock
 * (hfd_now) under the guard, so that it never goes back, and carries pushes.
 *
 * A push is never delivered inside the operation that caused it: it is put
 * into the inbox of the receiving store, whose eventfd turns readable, and
 * dispatch tells the host.  So a push may come late, as from a real store, and
 * no lock of ours is held when the core is called.
 *
 * A forked child shares nothing with its parent's spaces: it starts with an
 * empty list of names. */
#include "mem.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "list_copy.h"
#include "model.h"

enum {
    CAPS_ALWAYS = HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED |
                  HF_CAP_PERMIT | HF_CAP_FIXED_LEASE | HF_CAP_VALUE |
                  HF_CAP_BREAK | HF_CAP_LINEARIZABLE | HF_CAP_BLOCKING,
    CAPS_MARKS = HF_CAP_MARKS | HF_CAP_RUN,
    CAPS_EACH = HF_CAP_TOKEN | HF_CAP_FIXED_LEASE | HF_CAP_BREAK |
                HF_CAP_LINEARIZABLE | HF_CAP_BLOCKING | CAPS_MARKS | HF_CAP_EACH
};

typedef struct mem_ways { /* of the URL: which kind of store it is like */
    bool marks, each;
} mem_ways;

typedef struct mem_event {
    struct mem_event *next;
    hf_id rid;
    int reason; /* not 0: news */
    bool has_fresh;
    hf_place fresh;
} mem_event;

typedef struct mem_member { /* which store speaks for a session */
    struct mem_member *next;
    hf_id sid;
    hf_store *store;
} mem_member;

typedef struct mem_space {
    struct mem_space *next;
    size_t open; /* stores; guarded by the list's mutex */
    pthread_mutex_t mutex;
    hf__mem_store *model;
    mem_member *members;
    char name[];
} mem_space;

struct hf_store {
    mem_space *space;
    hf_host host;
    int event_fd;
    /* Guarded by the space's mutex: */
    mem_event *inbox, **inbox_end;
    bool overflow; /* an event was lost for want of memory */
};

static pthread_mutex_t spaces_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t spaces_once = PTHREAD_ONCE_INIT;
static mem_space *spaces;

/* Another thread of the parent may have held the mutex at the fork. */
static void forget_spaces(void)
{
    pthread_mutex_init(&spaces_mutex, NULL);
    spaces = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_spaces);
}

/* ---- Pushes ------------------------------------------------------------- */

static hf_store *find_store(const mem_space *space, const hf_id *sid)
{
    for (const mem_member *m = space->members; m; m = m->next) {
        if (memcmp(&m->sid, sid, sizeof *sid) == 0)
            return m->store;
    }
    return NULL;
}

/* Called with the space's mutex held. */
static void post_event(mem_space *space, const hf_id *sid, const hf_id *rid,
                       const hf_place *fresh, int reason)
{
    hf_store *store = find_store(space, sid);
    mem_event *event;

    if (!store)
        return;
    event = hfd_alloc(sizeof *event);
    if (event) {
        event->rid = *rid;
        event->reason = reason;
        event->has_fresh = fresh != NULL;
        if (fresh) {
            event->fresh = *fresh;
            event->fresh.key = NULL; /* the queue may be gone by then */
            event->fresh.key_len = 0;
        }
        *store->inbox_end = event;
        store->inbox_end = &event->next;
    } else {
        store->overflow = true;
    }
    eventfd_write(store->event_fd, 1);
}

static void post_changed(void *ctx, const hf_id *sid, const hf_id *rid,
                         const hf_place *fresh)
{
    post_event(ctx, sid, rid, fresh, 0);
}

static void post_news(void *ctx, const hf_id *sid, const hf_id *rid, int reason)
{
    post_event(ctx, sid, rid, NULL, reason);
}

static int mem_fd(hf_store *store)
{
    return store->event_fd;
}

static void mem_dispatch(hf_store *store)
{
    eventfd_t ignored;
    mem_event *event;
    bool overflow;

    /* Empty the descriptor before the inbox: what is posted in between rings
     * again, at worst for nothing. */
    eventfd_read(store->event_fd, &ignored);
    pthread_mutex_lock(&store->space->mutex);
    event = store->inbox;
    overflow = store->overflow;
    store->inbox = NULL;
    store->inbox_end = &store->inbox;
    store->overflow = false;
    pthread_mutex_unlock(&store->space->mutex);
    while (event) {
        mem_event *next = event->next;

        if (event->reason != 0)
            store->host.news(store->host.ctx, &event->rid, event->reason);
        else
            store->host.changed(store->host.ctx, &event->rid,
                                event->has_fresh ? &event->fresh : NULL);
        hfd_free(event);
        event = next;
    }
    if (overflow)
        store->host.changed(store->host.ctx, NULL, NULL);
}

/* ---- Opening and closing ------------------------------------------------ */

static void free_space(mem_space *space)
{
    while (space->members) {
        mem_member *m = space->members;

        space->members = m->next;
        hfd_free(m);
    }
    hf__mem_model_free(space->model);
    pthread_mutex_destroy(&space->mutex);
    hfd_free(space);
}

static mem_space *make_space(const char *name, mem_ways ways)
{
    mem_space *space = hfd_alloc(sizeof *space + strlen(name) + 1);
    char host[64] = "";

    if (!space)
        return NULL;
    space->model = hf__mem_model_new();
    if (!space->model) {
        hfd_free(space);
        return NULL;
    }
    memcpy(space->name, name, strlen(name) + 1);
    pthread_mutex_init(&space->mutex, NULL);
    gethostname(host, sizeof host - 1);
    hf__mem_model_set_marks(space->model, ways.marks);
    hf__mem_model_set_each(space->model, ways.each);
    hf__mem_model_set_who(space->model, getpid(), host);
    hf__mem_model_tell(space->model, &(hf__mem_tell){.ctx = space,
                                                     .changed = post_changed,
                                                     .news = post_news});
    return space;
}

/* One more store in the space of this name, which is made if it is not there.
 * Called with spaces_mutex held. */
static int enter_space(mem_space **ret, const char *name, mem_ways ways,
                       hf_error *err)
{
    mem_space *space = spaces;

    while (space && (*name == '\0' || strcmp(space->name, name) != 0))
        space = space->next;
    if (space && (hf__mem_model_marks(space->model) != ways.marks ||
                  hf__mem_model_each(space->model) != ways.each))
        return hfd_error(err, HF_EURL, "mem", 0,
                         "'mem:%.60s' is open with marks=%s&each=%s in this "
                         "process: say the same, or use another name",
                         name, hf__mem_model_marks(space->model) ? "yes" : "no",
                         hf__mem_model_each(space->model) ? "yes" : "no");
    if (!space) {
        space = make_space(name, ways);
        if (!space)
            return hfd_error(err, HF_ENOMEM, "mem", 0,
                             "out of memory for 'mem:%.60s'", name);
        space->next = spaces;
        spaces = space;
    }
    space->open++;
    *ret = space;
    return 0;
}

static void leave_space(mem_space *space)
{
    pthread_mutex_lock(&spaces_mutex);
    if (--space->open == 0) {
        mem_space **at = &spaces;

        while (*at != space)
            at = &(*at)->next;
        *at = space->next;
        free_space(space);
    }
    pthread_mutex_unlock(&spaces_mutex);
}

static int mem_open(hf_store **ret, const hf_url *url, const hf_host *host,
                    uint32_t *ret_caps, hf_error *err)
{
    mem_ways ways = {.marks = true};
    int code = hfd_url_flag(url, "marks", &ways.marks, err);
    hf_store *store;

    if (code == 0)
        code = hfd_url_flag(url, "each", &ways.each, err);
    if (code != 0)
        return code;
    if (ways.each && !ways.marks)
        return hfd_error(err, HF_EURL, "mem", 0,
                         "each=yes has marks: leave 'marks=no' away");
    if (hfd_url_host_count(url) > 0)
        return hfd_error(err, HF_EURL, "mem", 0,
                         "a mem: URL names no host: write 'mem:NAME'");
    store = hfd_alloc(sizeof *store);
    if (!store)
        return hfd_error(err, HF_ENOMEM, "mem", 0, "out of memory");
    store->host = *host;
    store->inbox_end = &store->inbox;
    store->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->event_fd < 0) {
        hfd_free(store);
        return hfd_error(err, HF_EUNAVAIL, "mem", 0,
                         "no descriptor left for a mem: store: raise "
                         "'ulimit -n'");
    }
    pthread_once(&spaces_once, watch_forks);
    pthread_mutex_lock(&spaces_mutex);
    code = enter_space(&store->space, hfd_url_path(url), ways, err);
    pthread_mutex_unlock(&spaces_mutex);
    if (code != 0) {
        close(store->event_fd);
        hfd_free(store);
        return code;
    }
    *ret = store;
    *ret_caps =
        ways.each ? CAPS_EACH : CAPS_ALWAYS | (ways.marks ? CAPS_MARKS : 0);
    return 0;
}

static void mem_close(hf_store *store)
{
    mem_space *space = store->space;
    mem_member **at = &space->members;

    pthread_mutex_lock(&space->mutex);
    while (*at) {
        mem_member *m = *at;

        if (m->store == store) {
            *at = m->next;
            hfd_free(m);
        } else {
            at = &m->next;
        }
    }
    pthread_mutex_unlock(&space->mutex);
    leave_space(space);
    while (store->inbox) {
        mem_event *event = store->inbox;

        store->inbox = event->next;
        hfd_free(event);
    }
    close(store->event_fd);
    hfd_free(store);
}

static void mem_abandon(hf_store *store)
{
    close(store->event_fd);
}

/* ---- Operations --------------------------------------------------------- */

/* Who hears the pushes of op->sid from now on.  Called with the mutex held;
 * false: out of memory. */
static bool add_member(hf_store *store, const hf_id *sid)
{
    mem_member *m = find_store(store->space, sid) ? NULL : hfd_alloc(sizeof *m);

    if (!m)
        return find_store(store->space, sid) != NULL;
    m->sid = *sid;
    m->store = store;
    m->next = store->space->members;
    store->space->members = m;
    return true;
}

static void drop_member(mem_space *space, const hf_id *sid)
{
    mem_member **at = &space->members;

    while (*at && memcmp(&(*at)->sid, sid, sizeof *sid) != 0)
        at = &(*at)->next;
    if (*at) {
        mem_member *m = *at;

        *at = m->next;
        hfd_free(m);
    }
}

static void run_guarded(hf_store *store, hf_op *op)
{
    mem_space *space = store->space;

    pthread_mutex_lock(&space->mutex);
    op->sent = hfd_now();
    if (op->kind == HF_OP_ATTACH && !add_member(store, &op->sid)) {
        op->outcome = HF_NOT_APPLIED;
        hfd_error(&op->error, HF_ENOMEM, "mem", 0,
                  "out of memory for a session");
    } else {
        hf__mem_model_run(space->model, op, op->sent);
        if (op->kind == HF_OP_DETACH)
            drop_member(space, &op->sid);
    }
    pthread_mutex_unlock(&space->mutex);
}

static void mem_start(hf_store *store, hf_op *op)
{
    if (op->kind == HF_OP_LIST) {
        mem_copies copies = {.rows = NULL};
        int (*emit)(const hf_row *, void *) = op->emit_row;
        void *user = op->user;

        /* The rows are the model's: copy them, let go of the mutex, tell. */
        op->emit_row = hf__mem_copy_row;
        op->user = &copies;
        run_guarded(store, op);
        op->emit_row = emit;
        op->user = user;
        if (copies.failed) {
            op->outcome = HF_NOT_APPLIED;
            hfd_error(&op->error, HF_ENOMEM, "mem", 0,
                      "out of memory for the listing");
        } else {
            hf__mem_emit_copies(&copies, emit, user);
        }
        hf__mem_free_copies(&copies);
    } else {
        run_guarded(store, op);
    }
    if (op->kind == HF_OP_RENEW)
        mem_dispatch(store); /* the answer carries the news */
    hfd_finish(op, op->outcome, op->error.code);
}

static const char *const mem_options[] = {"marks", "each", NULL};

const hf_driver hf__driver_mem = {
    HF_DRIVER_HEAD,          .name = "mem",      .schemes = "mem",
    .options = mem_options,  .open = mem_open,   .close = mem_close,
    .abandon = mem_abandon,  .start = mem_start, .fd = mem_fd,
    .dispatch = mem_dispatch};
