/* schema.c - our tables: there, ours, and understood; made where they may be.
 *
 * Asked once when a store is opened.  meta has one row: the format of the
 * tables (a newer one is refused: it may mean something that we would break),
 * whether the store is strict, and whose clock is compared.  The last two must
 * be the same for all users, because an observer writes no instants: whoever
 * comes first decides, and whoever differs is told.
 *
 * Two of us make the tables at once: every statement of the list can be run
 * again, and one that failed because the other was faster is followed by the
 * question that began all this. */
#include <string.h>

#include "native.h"

enum { MAKES = 3 };

static int take_error(const sql_use *use, hf_error *err)
{
    *err = use->err;
    return err->code
               ? err->code
               : hfd_error(err, HF_EUNAVAIL, use->store->port->class->driver, 0,
                           "the database did not answer");
}

/* Run the list; what fails is seen by asking META afterwards. */
static int make_tables(sql_use *use, hf_error *err)
{
    hf_store *store = use->store;
    const sql_dialect *dialect = store->port->dialect;
    char *text = hfd_alloc(SQL_TEXT_MAX);
    int code = 0;

    if (!text)
        return hfd_error(err, HF_ENOMEM, store->port->class->driver, 0,
                         "out of memory");
    for (size_t i = 0; dialect->tables[i] && code == 0 && use->conn; i++) {
        code = sql_render_one(text, dialect, store->schema, store->prefix,
                              dialect->tables[i], err);
        use->once = true;
        if (code == 0 && !sql_say(use, text))
            hfd_log(HF_LOG_DEBUG, "%s: making a table: %s",
                    store->port->class->driver, use->err.text);
    }
    hfd_free(text);
    return code;
}

/* META, and the tables before it if they are missing. */
static int read_meta(sql_use *use, hf_error *err)
{
    hf_store *store = use->store;
    hf_error first = {.code = 0};

    for (unsigned i = 0; i < MAKES; i++) {
        int code;

        if (sql_run(use, SQL_META, NULL) && use->rows.rows > 0)
            return 0;
        if (use->end != SQL_DONE && use->end != SQL_REFUSED)
            return take_error(use, err);
        if (i == 0)
            first = use->err;
        if (!store->create)
            return hfd_error(err, HF_EPROTO, store->port->class->driver, 0,
                             "the tables '%s...' are not in '%s': run what "
                             "'holdfast ddl %s' prints, or say create=yes",
                             store->prefix, store->port->where,
                             store->port->class->driver);
        code = make_tables(use, err);
        if (code != 0)
            return code;
    }
    if (use->err.code != 0)
        return take_error(use, err);
    return hfd_error(err, HF_EPROTO, store->port->class->driver, 0,
                     "the tables '%s...' in '%s' could not be made: %.120s",
                     store->prefix, store->port->where, first.text);
}

/* The clock that all users of these tables go by. */
static int agree_clock(sql_use *use, const char *found, hf_error *err)
{
    hf_store *store = use->store;
    const char *mine = store->observer ? "observer" : "server";
    const char *params[] = {mine};
    char kept[20] = "";

    if (!found[0]) {
        if (!sql_run(use, SQL_CLOCK, params) || !sql_run(use, SQL_META, NULL))
            return take_error(use, err);
        found = sql_cell(&use->rows, 0, 6);
        if (!found)
            found = "";
    }
    if (strlen(found) < sizeof kept)
        memcpy(kept, found, strlen(found) + 1);
    if (strcmp(kept, mine) != 0)
        return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                         "the tables '%s...' are used with clock=%s: all "
                         "users must say the same",
                         store->prefix, kept);
    return 0;
}

static int agree_strict(sql_use *use, bool strict, int64_t max_lease_us,
                        hf_error *err)
{
    hf_store *store = use->store;

    if (strict && !store->strict)
        return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                         "the tables '%s...' are strict: add strict=yes to the "
                         "URL",
                         store->prefix);
    if (!store->strict)
        return 0;
    if (strict && max_lease_us != store->max_lease_us)
        return hfd_error(err, HF_EURL, store->port->class->driver, 0,
                         "the tables '%s...' are strict and allow leases of "
                         "%lld ms: say max_lease_ms=%lld",
                         store->prefix, (long long)(max_lease_us / 1000),
                         (long long)(max_lease_us / 1000));
    return sql_strict_open(use, err);
}

int sql_native_schema(sql_use *use, hf_error *err)
{
    hf_store *store = use->store;
    int64_t format, max_lease_us;
    char clock[20] = "";
    const char *found;
    bool strict;
    int code = read_meta(use, err);

    if (code != 0)
        return code;
    format = sql_number(&use->rows, 0, 0, 0);
    strict = sql_number(&use->rows, 0, 2, 0) != 0;
    max_lease_us = sql_number(&use->rows, 0, 5, 0);
    found = sql_cell(&use->rows, 0, 6);
    if (found && strlen(found) < sizeof clock)
        memcpy(clock, found, strlen(found) + 1);
    if (format != SQL_FORMAT)
        return hfd_error(err, HF_EPROTO, store->port->class->driver, 0,
                         "the tables '%s...' have format %lld, this holdfast "
                         "knows %d: use %s, or another prefix=",
                         store->prefix, (long long)format, SQL_FORMAT,
                         format > SQL_FORMAT ? "a newer one" : "an older one");
    code = agree_clock(use, clock, err);
    if (code == 0)
        code = agree_strict(use, strict, max_lease_us, err);
    return code;
}
