/* format_held_vessel.c - connections that hold locks, and who looks after them.
 *
 * A vessel is used by one thread at a time (io).  When its connection is lost,
 * all that it held is lost in that instant, on the server and here: the records
 * are parted from it and their owners told.  So there is no lock of ours that
 * we do not know of, and an attempt without an answer has taken nothing: its
 * connection is reset.
 *
 * The watcher, one thread per store while it has vessels, sees within a fifth
 * of a second that a connection was closed, and gives back what nobody renewed
 * for a lease.  Should this process stand still, the server does the same by
 * the limit of silence that it was given.
 *
 * Order: io before table.mu; neither while the core is called. */
#include "format_held.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 200, SPARE = 4, TELL = 32 };

static void ring_bell(const sql_held *held)
{
    uint64_t one = 1;
    ssize_t n = held->bell >= 0 ? write(held->bell, &one, sizeof one) : 0;

    (void)n; /* a full counter rings, too */
}

/* ---- Getting and putting ------------------------------------------------ */

static sql_vessel *new_vessel(sql_held *held, hf_nsec deadline, hf_error *err)
{
    sql_vessel *vessel = hfd_alloc(sizeof *vessel);
    int code;

    if (!vessel) {
        hfd_error(err, HF_ENOMEM, held->store->port->class->driver, 0,
                  "out of memory");
        return NULL;
    }
    code = sql_connect(held->store, deadline, &vessel->conn, err);
    if (code) {
        hfd_free(vessel);
        return NULL;
    }
    pthread_mutex_init(&vessel->io, NULL);
    pthread_mutex_lock(&vessel->io);
    vessel->users = 1;
    pthread_mutex_lock(&held->table.mu);
    vessel->next = held->vessels;
    held->vessels = vessel;
    pthread_mutex_unlock(&held->table.mu);
    return vessel;
}

/* One that stands and may be used; a user more.  Called with mu held. */
static sql_vessel *pick_vessel(sql_held *held)
{
    sql_vessel *at = held->vessels;

    while (at && (!at->conn || (held->kind->alone && at->users > 0)))
        at = at->next;
    if (at)
        at->users++;
    return at;
}

sql_vessel *sql_vessel_get(sql_held *held, hf_nsec deadline, hf_error *err)
{
    for (int round = 0; round < SPARE + 1; round++) {
        sql_vessel *vessel;
        bool fresh;

        pthread_mutex_lock(&held->table.mu);
        vessel = pick_vessel(held);
        pthread_mutex_unlock(&held->table.mu);
        if (!vessel)
            break;
        pthread_mutex_lock(&vessel->io);
        fresh = hfd_now() - vessel->renewed < HF_MS(TICK_MS);
        if (vessel->conn && !fresh &&
            !held->store->port->class->stands(vessel->conn))
            sql_vessel_lose(held, vessel);
        if (vessel->conn)
            return vessel;
        sql_vessel_put(held, vessel);
    }
    return new_vessel(held, deadline, err);
}

sql_vessel *sql_vessel_of(sql_held *held, const hf_id *rid)
{
    const sql_record *record;
    sql_vessel *vessel = NULL;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, rid);
    if (record)
        vessel = record->vessel;
    if (vessel)
        vessel->users++;
    pthread_mutex_unlock(&held->table.mu);
    if (!vessel)
        return NULL;
    pthread_mutex_lock(&vessel->io);
    if (vessel->conn)
        return vessel;
    sql_vessel_put(held, vessel);
    return NULL;
}

static void free_vessel(sql_held *held, sql_vessel *vessel)
{
    if (vessel->conn)
        held->store->port->class->disconnect(vessel->conn, false);
    pthread_mutex_destroy(&vessel->io);
    hfd_free(vessel);
}

typedef struct lost {
    sql_vessel *vessel;
    sql_table *table;
    hf_id rids[TELL];
    size_t count;
} lost;

static void pick_news(sql_record *record, void *user)
{
    lost *l = user;

    if (!record->news || l->count == TELL)
        return;
    record->news = false;
    l->rids[l->count++] = record->rid;
}

/* Called with no lock held. */
static void tell_news(sql_held *held)
{
    const hf_host *host = &held->store->host;
    lost l = {.table = &held->table};

    do {
        l.count = 0;
        pthread_mutex_lock(&held->table.mu);
        sql_each_record(&held->table, pick_news, &l);
        pthread_mutex_unlock(&held->table.mu);
        for (size_t i = 0; i < l.count && host->news; i++)
            host->news(host->ctx, &l.rids[i], HF_EEXPIRED);
    } while (l.count == TELL);
}

void sql_vessel_put(sql_held *held, sql_vessel *vessel)
{
    bool broke = vessel->conn == NULL, last;

    pthread_mutex_unlock(&vessel->io);
    pthread_mutex_lock(&held->table.mu);
    last = --vessel->users == 0 && broke;
    if (last) {
        sql_vessel **at = &held->vessels;

        while (*at != vessel)
            at = &(*at)->next;
        *at = vessel->next;
    }
    pthread_mutex_unlock(&held->table.mu);
    if (last)
        free_vessel(held, vessel);
    if (broke)
        tell_news(held);
}

/* ---- Losing ------------------------------------------------------------- */

static void part_record(sql_record *record, void *user)
{
    lost *l = user;

    if (record->vessel != l->vessel)
        return;
    record->vessel = NULL;
    l->vessel->users--;
    if (record->state == FORMAT_KEPT)
        sql_record_drop(l->table, record);
    else
        record->news = record->state == FORMAT_GRANTED;
}

void sql_vessel_lose(sql_held *held, sql_vessel *vessel)
{
    lost l = {.vessel = vessel, .table = &held->table};
    sql_conn *conn = vessel->conn;

    if (!conn)
        return;
    pthread_mutex_lock(&held->table.mu);
    vessel->conn = NULL;
    sql_each_record(&held->table, part_record, &l);
    pthread_mutex_unlock(&held->table.mu);
    held->store->port->class->disconnect(conn, true);
}

/* ---- The limit of silence ----------------------------------------------- */

typedef struct longest {
    const sql_vessel *vessel;
    hf_nsec until;
    size_t holds;
} longest;

static void find_longest(sql_record *record, void *user)
{
    longest *l = user;

    if (record->vessel != l->vessel)
        return;
    l->holds++;
    if (record->ends > l->until)
        l->until = record->ends;
}

bool sql_vessel_limit(sql_held *held, sql_vessel *vessel, hf_nsec span,
                      hf_nsec deadline)
{
    longest l = {.vessel = vessel};
    hf_nsec now = hfd_now();
    int64_t ms;

    pthread_mutex_lock(&held->table.mu);
    sql_each_record(&held->table, find_longest, &l);
    pthread_mutex_unlock(&held->table.mu);
    if (l.until - now > span)
        span = l.until - now;
    ms = (span + HF_MS(1) - 1) / HF_MS(1);
    /* Nobody's hold is made longer than it must be, nor any shorter. */
    if (ms == vessel->limit_ms || (ms < vessel->limit_ms && l.holds > 0))
        return true;
    if (!held->kind->limit(held, vessel->conn, ms, deadline))
        return false;
    vessel->limit_ms = ms;
    return true;
}

/* ---- The watcher -------------------------------------------------------- */

typedef struct overdue {
    hf_nsec now, next;
    bool all, found;
    hf_id rid;
} overdue;

static void find_overdue(sql_record *record, void *user)
{
    overdue *o = user;

    if (!record->vessel)
        return;
    if (o->all || record->ends <= o->now) {
        o->rid = record->rid;
        o->found = true;
    } else if (record->ends < o->next) {
        o->next = record->ends;
    }
}

/* What is overdue of this vessel's, with io held; false: it was renewed, or
 * given back, meanwhile. */
static bool copy_overdue(sql_held *held, const sql_vessel *vessel,
                         const overdue *o, char lock[SQL_LOCK_MAX],
                         bool *ret_shared)
{
    const sql_record *record;
    bool still;

    pthread_mutex_lock(&held->table.mu);
    record = sql_record_find(&held->table, &o->rid);
    still = record && record->vessel == vessel &&
            (o->all || record->ends <= hfd_now());
    if (still) {
        memcpy(lock, record->lock, record->lock_len);
        lock[record->lock_len] = '\0';
        *ret_shared = record->mode == HF_SHARED;
    }
    pthread_mutex_unlock(&held->table.mu);
    return still;
}

static void end_one(sql_held *held, const overdue *o)
{
    sql_vessel *vessel = sql_vessel_of(held, &o->rid);
    char lock[SQL_LOCK_MAX];
    sql_record *record;
    bool was, shared;

    if (!vessel)
        return;
    if (copy_overdue(held, vessel, o, lock, &shared)) {
        if (!held->kind->give(held, vessel->conn, lock, shared,
                              hfd_now() + HF_MS(2000), &was))
            sql_vessel_lose(held, vessel);
        pthread_mutex_lock(&held->table.mu);
        record = sql_record_find(&held->table, &o->rid);
        if (record && record->vessel == vessel) {
            record->vessel = NULL;
            vessel->users--;
            if (record->state == FORMAT_KEPT)
                sql_record_drop(&held->table, record);
        }
        pthread_mutex_unlock(&held->table.mu);
    }
    sql_vessel_put(held, vessel);
}

/* Give back what is overdue; answers when the next will be. */
static hf_nsec end_overdue(sql_held *held, bool all)
{
    overdue o;

    do {
        o = (overdue){.now = hfd_now(), .next = HF_NEVER, .all = all};
        pthread_mutex_lock(&held->table.mu);
        sql_each_record(&held->table, find_overdue, &o);
        pthread_mutex_unlock(&held->table.mu);
        if (o.found)
            end_one(held, &o);
    } while (o.found);
    return o.next;
}

/* Out of the list: an idle one of which there are enough: as many threads take
 * and give back at once as `connections` is made for.  With mu held. */
static sql_vessel *take_surplus(sql_held *held, bool all)
{
    size_t keep = all ? 0 : held->kind->alone ? held->store->pool.most : 1;

    for (sql_vessel **at = &held->vessels; *at; at = &(*at)->next) {
        sql_vessel *vessel = *at;

        if (vessel->users > 0)
            keep -= keep > 0 && !held->kind->alone;
        else if (keep > 0)
            keep--;
        else {
            *at = vessel->next;
            return vessel;
        }
    }
    return NULL;
}

/* Those that a busy thread uses are seen by it. */
static void look_at_vessels(sql_held *held)
{
    size_t n = 0;

    for (bool more = true; more; n++) {
        sql_vessel *vessel;

        pthread_mutex_lock(&held->table.mu);
        vessel = held->vessels;
        for (size_t i = 0; i < n && vessel; i++)
            vessel = vessel->next;
        more = vessel != NULL;
        if (vessel && pthread_mutex_trylock(&vessel->io) == 0)
            vessel->users++;
        else
            vessel = NULL;
        pthread_mutex_unlock(&held->table.mu);
        if (!vessel)
            continue;
        if (vessel->conn && !held->store->port->class->stands(vessel->conn))
            sql_vessel_lose(held, vessel);
        sql_vessel_put(held, vessel);
    }
}

void sql_vessel_sweep(sql_held *held, bool all)
{
    sql_vessel *vessel;

    end_overdue(held, all);
    do {
        pthread_mutex_lock(&held->table.mu);
        vessel = take_surplus(held, all);
        pthread_mutex_unlock(&held->table.mu);
        if (vessel)
            free_vessel(held, vessel);
    } while (vessel);
}

static void *watch(void *arg)
{
    sql_held *held = arg;
    struct pollfd bell = {.fd = held->bell, .events = POLLIN};
    hf_nsec next = HF_NEVER;
    bool closing = false, any = false;

    while (!closing) {
        hf_nsec now = hfd_now();
        int ms = any ? TICK_MS : -1;
        uint64_t count;

        if (any && next < now + HF_MS(TICK_MS))
            ms = next > now ? (int)((next - now) / HF_MS(1)) + 1 : 0;
        if (poll(&bell, 1, ms) > 0 &&
            read(held->bell, &count, sizeof count) < 0)
            continue;
        look_at_vessels(held);
        next = end_overdue(held, false);
        sql_vessel_sweep(held, false);
        pthread_mutex_lock(&held->table.mu);
        closing = held->closing;
        any = false;
        for (const sql_vessel *at = held->vessels; at && !any; at = at->next)
            any = at->users > 0;
        held->watching = any;
        pthread_mutex_unlock(&held->table.mu);
    }
    return NULL;
}

void sql_watch_soon(sql_held *held)
{
    bool watching;

    pthread_mutex_lock(&held->table.mu);
    watching = held->watching;
    held->watching = true;
    pthread_mutex_unlock(&held->table.mu);
    if (!watching)
        ring_bell(held);
}

int sql_watch_start(sql_held *held, hf_error *err)
{
    sigset_t all, before;
    int code;

    held->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (held->bell < 0)
        return hfd_error(err, HF_EUNAVAIL, held->store->port->class->driver, 0,
                         "no descriptor is left");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    code = pthread_create(&held->watcher, NULL, watch, held);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        return 0;
    close(held->bell);
    held->bell = -1;
    return hfd_error(err, HF_EUNAVAIL, held->store->port->class->driver, code,
                     "no thread can be started");
}

void sql_watch_stop(sql_held *held)
{
    if (held->bell < 0)
        return;
    pthread_mutex_lock(&held->table.mu);
    held->closing = true;
    pthread_mutex_unlock(&held->table.mu);
    ring_bell(held);
    pthread_join(held->watcher, NULL);
    close(held->bell);
    held->bell = -1;
}
