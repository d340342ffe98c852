/* strict.c - strict=yes: after a failover nobody is granted for a lease.
 *
 * A server that was promoted may not know of holds that the old one granted.
 * meta remembers the epoch (what changes when the memory may be another one);
 * whoever finds the server's epoch to be different writes it down with the
 * instant until which nobody is granted: the longest lease there may be, so
 * that every forgotten hold has ended by its owner's own arithmetic.
 *
 * Asked after the statement that put the entry where it stands, on the same
 * connection: a server that took over before that statement is recognised, and
 * one that takes over later begins a quarantine of its own.  Two of us here:
 * both write the same epoch, the second changes nothing.  Reply lost: the
 * operation is unknown, and nothing was granted. */
#include <stdio.h>
#include <string.h>

#include "native.h"

/* Whoever knew another server than this one has to ask what it remembers. */
static void note_epoch(const sql_use *use, const char *epoch)
{
    sql_native_data *data = sql_native_of(use->store);
    const hf_host *host = &use->store->host;
    bool other;

    pthread_mutex_lock(&data->mu);
    other = data->epoch[0] != '\0' && strcmp(data->epoch, epoch) != 0;
    memcpy(data->epoch, epoch, strlen(epoch) + 1);
    pthread_mutex_unlock(&data->mu);
    if (other)
        host->doubt(host->ctx, HF_EUNAVAIL,
                    "another server took over, which may have forgotten");
}

/* What the server says of itself: its epoch, and that of meta. */
static bool read_epoch(sql_use *use, char ret[SQL_EPOCH_MAX], bool *ret_same,
                       int64_t *ret_left_us)
{
    const char *now, *known;

    if (!sql_run(use, SQL_NOW_EPOCH, NULL))
        return false;
    now = sql_cell(&use->rows, 0, 0);
    known = sql_cell(&use->rows, 0, 1);
    if (!now || !known || strlen(now) >= SQL_EPOCH_MAX) {
        hfd_error(&use->err, HF_EPROTO, use->store->port->class->driver, 0,
                  "'%s' does not say its epoch: strict=yes cannot be kept here",
                  use->store->port->where);
        return false;
    }
    memcpy(ret, now, strlen(now) + 1);
    *ret_same = strcmp(now, known) == 0;
    *ret_left_us = sql_span(&use->rows, 0, 2, SQL_SPAN_MAX);
    note_epoch(use, ret);
    return true;
}

bool sql_may_grant(sql_use *use, bool *ret_may, hf_nsec *ret_in)
{
    char epoch[SQL_EPOCH_MAX];
    const char *params[] = {epoch};
    bool same;
    int64_t left_us = 0;

    *ret_may = true;
    *ret_in = 0;
    if (!use->store->strict)
        return true;
    if (!read_epoch(use, epoch, &same, &left_us))
        return false;
    if (!same) {
        hfd_log(HF_LOG_WARN,
                "%s: '%s' may be another server than before: nobody is granted "
                "for %lld ms",
                use->store->port->class->driver, use->store->port->where,
                (long long)(use->store->max_lease_us / 1000));
        if (!sql_run(use, SQL_EPOCH, params))
            return false;
        left_us = use->store->max_lease_us;
    }
    *ret_may = left_us <= 0;
    *ret_in = *ret_may ? 0 : left_us * 1000;
    return true;
}

int sql_check_lease(sql_use *use, hf_nsec lease)
{
    if (!use->store->strict || lease <= use->store->max_lease_us * 1000)
        return 0;
    return hfd_error(&use->err, HF_EINVAL, use->store->port->class->driver, 0,
                     "a lease of %lld ms is longer than max_lease_ms=%lld of "
                     "this strict store",
                     (long long)(lease / HF_MS(1)),
                     (long long)(use->store->max_lease_us / 1000));
}

bool sql_watch_epoch(sql_use *use)
{
    hf_nsec in;
    bool may;

    return sql_may_grant(use, &may, &in);
}

/* Also tables that were made just now begin with a quarantine: a server that
 * was promoted before it heard of them looks the same. */
int sql_strict_open(sql_use *use, hf_error *err)
{
    char number[SQL_NUMBER_MAX];
    const char *strict[] = {sql_number_text(use->store->max_lease_us, number)};
    const char *driver = use->store->port->class->driver;

    if (!use->store->port->dialect->epoch)
        return hfd_error(err, HF_EURL, driver, 0,
                         "strict=yes: this database does not tell when it "
                         "forgot something");
    if (use->store->observer)
        return hfd_error(err, HF_EURL, driver, 0,
                         "strict=yes goes by the server's clock: leave "
                         "clock=observer away, or strict=yes");
    if (!sql_run(use, SQL_STRICT, strict) || !sql_watch_epoch(use)) {
        *err = use->err;
        return err->code;
    }
    return 0;
}
