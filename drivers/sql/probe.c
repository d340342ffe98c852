/* probe.c - ask a live database what doctor wants to know.
 *
 * One connection, one short statement after the other; each answer becomes a
 * fact, the facts are judged (probe_judge.c), and then the port adds what only
 * it knows.  It leaves no trace: rights are tried by statements that can match
 * no row (WHERE 1 = 0), which a database refuses all the same when the account
 * may not run them.
 *
 * A statement that is refused is a fact like any other.  Only a connection that
 * breaks fails the operation; nothing was changed then either, so a lost reply
 * and a pause cost nothing but the answer. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "body.h"

enum { SAMPLES = 5 };

/* The statement classes of each table; the texts find and change nothing. */
static const struct {
    const char *what, *table, *text;
} classes[] = {
    {"update", "meta", "UPDATE @meta SET floor = floor WHERE 1 = 0"},
    {"insert into", "session",
     "INSERT INTO @session(sid, ttl_us, exp_us, renewals, pid, host, name, "
     "bell, news) SELECT sid, ttl_us, exp_us, renewals, pid, host, name, bell, "
     "news FROM @session WHERE 1 = 0"},
    {"update", "session",
     "UPDATE @session SET renewals = renewals WHERE 1 = 0"},
    {"delete from", "session", "DELETE FROM @session WHERE 1 = 0"},
    {"insert into", "queue",
     "INSERT INTO @queue(k, counter, kind, body, tombs, used_us) SELECT k, "
     "counter, kind, body, tombs, used_us FROM @queue WHERE 1 = 0"},
    {"update", "queue", "UPDATE @queue SET counter = counter WHERE 1 = 0"},
    {"delete from", "queue", "DELETE FROM @queue WHERE 1 = 0"},
    {"insert into", "value",
     "INSERT INTO @value(rid, v, used_us) SELECT rid, v, used_us FROM @value "
     "WHERE 1 = 0"},
    {"update", "value", "UPDATE @value SET used_us = used_us WHERE 1 = 0"},
    {"delete from", "value", "DELETE FROM @value WHERE 1 = 0"},
};

/* Run a template of ours.  False: refused (then *ret_gone is false), or the
 * connection is gone. */
static bool ask(sql_use *use, const char *template, bool *ret_gone)
{
    hf_store *store = use->store;
    char *text = hfd_alloc(SQL_TEXT_MAX);
    bool done = false;

    *ret_gone = true;
    if (!text) {
        use->end = SQL_BROKEN;
        hfd_error(&use->err, HF_ENOMEM, store->port->class->driver, 0,
                  "out of memory for the examination");
        return false;
    }
    if (sql_render_one(text, store->port->dialect, store->schema, store->prefix,
                       template, &use->err) != 0) {
        use->end = SQL_REFUSED;
        *ret_gone = false;
    } else {
        done = sql_say(use, text);
        *ret_gone = use->end == SQL_BROKEN || use->end == SQL_LOST;
    }
    hfd_free(text);
    return done;
}

static void note_missing(sql_facts *f, const sql_use *use, const char *what,
                         const char *table)
{
    size_t used = strlen(f->missing);

    if (!f->refusal[0])
        snprintf(f->refusal, sizeof f->refusal, "%.150s", use->err.text);
    snprintf(f->missing + used, sizeof f->missing - used, "%s%s %s%s",
             used ? ", " : "", what, use->store->prefix, table);
}

/* False: the connection is gone. */
static bool ask_rights(sql_use *use, sql_facts *f)
{
    bool gone;

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (ask(use, classes[i].text, &gone))
            continue;
        if (gone)
            return false;
        /* A row that is locked, or a database that is busy, says nothing about
         * rights. */
        if (use->end == SQL_REFUSED)
            note_missing(f, use, classes[i].what, classes[i].table);
    }
    return true;
}

static bool ask_rows(sql_use *use, sql_facts *f)
{
    const struct {
        const char *table, *text;
        int64_t *ret;
    } counts[] = {
        {"session", "SELECT count(*) FROM @session", &f->sessions},
        {"queue", "SELECT count(*) FROM @queue", &f->queues},
        {"value", "SELECT count(*) FROM @value", &f->values},
    };
    bool gone;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (ask(use, counts[i].text, &gone))
            *counts[i].ret = sql_number(&use->rows, 0, 0, -1);
        else if (gone)
            return false;
        else if (use->end == SQL_REFUSED)
            note_missing(f, use, "select from", counts[i].table);
    }
    return true;
}

static bool ask_meta(sql_use *use, sql_facts *f)
{
    char epoch[200];
    const char *now;
    bool gone;

    if (!sql_run(use, SQL_META, NULL)) {
        if (use->end == SQL_REFUSED)
            note_missing(f, use, "select from", "meta");
        return use->end == SQL_REFUSED || use->end == SQL_CLASH;
    }
    f->meta_there = use->rows.rows == 1;
    if (!f->meta_there)
        return true;
    f->format = sql_number(&use->rows, 0, 0, -1);
    f->meta_strict = sql_number(&use->rows, 0, 2, 0) == 1;
    now = sql_cell(&use->rows, 0, 3);
    snprintf(epoch, sizeof epoch, "%s", now ? now : "");
    f->quarantine_us = sql_span(&use->rows, 0, 4, -1);
    f->max_lease_us = sql_span(&use->rows, 0, 5, -1);
    if (!f->meta_strict || !use->store->port->dialect->epoch)
        return true;
    if (!ask(use, "SELECT @epoch", &gone))
        return !gone;
    now = sql_cell(&use->rows, 0, 0);
    f->epoch_known = now != NULL;
    f->epoch_same = now && strcmp(now, epoch) == 0;
    return true;
}

/* Our clock is read before and behind it; the quickest answer knows best. */
static bool ask_clock(sql_use *use, sql_facts *f)
{
    const char *text =
        f->has_clock ? "SELECT @now" : "SELECT count(*) FROM @meta";
    bool gone;

    if (!f->has_clock && !f->native)
        return true;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t before = hfd_realtime_us();
        hf_nsec sent = hfd_now(), trip;

        if (!ask(use, text, &gone))
            return !gone;
        trip = hfd_now() - sent;
        if (f->samples == 0 || trip < f->trip_best) {
            f->trip_best = trip;
            f->offset_us =
                sql_instant(&use->rows, 0, 0) - (before + trip / 2000);
        }
        if (trip > f->trip_worst)
            f->trip_worst = trip;
        f->samples++;
    }
    return true;
}

/* The listener may never have been needed: begin now, as a waiter would. */
static void ask_listener(const hf_store *store, const hf_op *op, sql_facts *f)
{
    char sid[SQL_ID_LEN + 1], bell[SQL_BELL_MAX];
    hf_error err = {.code = 0};

    if (!f->native || !f->can_listen)
        return;
    sql_id_text(&op->sid, sid);
    f->deaf = store->port->class->listen(store->port, sid, op->deadline, bell,
                                         &err) != 0;
    if (f->deaf)
        snprintf(f->deaf_why, sizeof f->deaf_why, "%.150s", err.text);
}

static bool gather(sql_use *use, sql_facts *f)
{
    return ask_clock(use, f) &&
           (!f->native ||
            (ask_meta(use, f) && ask_rows(use, f) && ask_rights(use, f)));
}

void sql_probe(hf_store *store, hf_op *op)
{
    const sql_port_class *class = store->port->class;
    const sql_dialect *dialect = store->port->dialect;
    sql_facts facts;
    sql_use use;

    sql_facts_init(&facts);
    facts.database = dialect->name;
    facts.native = store->format == &sql_native;
    facts.strict = store->strict;
    facts.observer = store->observer;
    facts.has_clock = dialect->now != NULL;
    facts.purges = dialect->share != NULL;
    facts.lease = op->ttl;
    facts.connections = store->pool.most;
    facts.can_listen = class->listen != NULL;
    if (sql_begin(&use, store, op) != 0 || !gather(&use, &facts)) {
        sql_fail(&use);
        return;
    }
    ask_listener(store, op, &facts);
    sql_judge_facts(&facts, op->emit_finding, op->user);
    if (class->probe)
        class->probe(use.conn, op);
    sql_finish(&use, 0);
}
