/* ddl.c - the tables as text, for who may make them.
 *
 * Answers `holdfast ddl`.  The statements are those that create=yes runs, from
 * the same templates, laid out for reading; around them stands what a DBA asks
 * before running them: what is each table for, does it grow, which rights does
 * the application's account need.  Reaches no database, so a name that is wrong
 * is refused here as it would be there.
 *
 * It runs nothing, decides nothing and keeps nothing. */
#include "ddl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 40 };

/* ---- Saying lines ---- */

/* The quoted name; schema and prefix were checked and have no quotes. */
static void name_table(const sql_ddl_page *page, const char *name, char *ret,
                       size_t cap)
{
    char q = page->dialect->quote;

    if (page->schema[0])
        snprintf(ret, cap, "%c%s%c.%c%s%s%c", q, page->schema, q, q,
                 page->prefix, name, q);
    else
        snprintf(ret, cap, "%c%s%s%c", q, page->prefix, name, q);
}

void sql_ddl_say(const sql_ddl_page *page, const char *name, const char *text)
{
    char table[2 * NAME_MAX_LEN + 60], line[400];
    size_t used = 0;

    name_table(page, name, table, sizeof table);
    for (;; text++) {
        if (*text == '\n' || *text == '\0') {
            line[used] = '\0';
            page->fn(line, page->user);
            used = 0;
            if (*text == '\0')
                return;
        } else if (text[0] == '%' && text[1] == 'T') {
            used +=
                (size_t)snprintf(line + used, sizeof line - used, "%s", table);
            text++;
        } else {
            line[used++] = *text;
        }
        if (used > sizeof line - sizeof table)
            used = sizeof line - sizeof table;
    }
}

/* A statement on lines that people read: a column each.  Quotes are looked at,
 * so that a text with commas stays whole. */
static void say_statement(const sql_ddl_page *page, const char *sql)
{
    char line[SQL_TEXT_MAX];
    size_t used = 0;
    int depth = 0;
    bool quoted = false, table = strncmp(sql, "CREATE TABLE", 12) == 0;

    for (; *sql; sql++) {
        bool turn = false;

        quoted ^= *sql == '\'';
        if (!quoted)
            depth += (*sql == '(') - (*sql == ')');
        if (table && !quoted && *sql == ')' && depth == 0) {
            line[used] = '\0';
            page->fn(line, page->user);
            used = 0;
            table = false; /* what follows are its settings */
        }
        if (used < sizeof line - 8)
            line[used++] = *sql;
        if (table && !quoted && depth == 1)
            turn = *sql == ',' || *sql == '(';
        if (turn) {
            line[used] = '\0';
            page->fn(line, page->user);
            used = (size_t)snprintf(line, sizeof line, "    ");
            while (sql[1] == ' ')
                sql++;
        }
    }
    snprintf(line + used, sizeof line - used, ";");
    page->fn(line, page->user);
}

/* ---- The native tables ---- */

static const struct {
    const char *word, *what;
} tables[] = {
    {"@meta",
     "-- One row: the version of these tables, the number below which no new\n"
     "-- queue begins, and the quarantine after a failover."},
    {"@session",
     "-- A row for each process that uses locks: its lease.  Gone when the\n"
     "-- process ends, or a lease after it died."},
    {"@queue",
     "-- A row for each key: the counter of its tokens, and who holds and\n"
     "-- waits, in order.  Every lock and release changes its row.  Rows that\n"
     "-- were idle for long are removed by the clients: schedule nothing."},
    {"@value",
     "-- Texts that holders publish: a row each, gone with the hold."},
};

static int say_tables(const sql_ddl_page *page, hf_error *err)
{
    char *text = hfd_alloc(SQL_TEXT_MAX);
    int code = 0;

    if (!text)
        return hfd_error(err, HF_ENOMEM, page->dialect->name, 0,
                         "out of memory");
    for (const char *const *t = page->dialect->tables; *t && code == 0; t++) {
        size_t said = sizeof tables / sizeof *tables;

        for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
            if (strncmp(*t, "CREATE TABLE", 12) == 0 &&
                strstr(*t, tables[i].word))
                said = i;
        code = sql_render_one(text, page->dialect, page->schema, page->prefix,
                              *t, err);
        if (code)
            break;
        page->fn("", page->user);
        if (said < sizeof tables / sizeof *tables)
            sql_ddl_say(page, "", tables[said].what);
        say_statement(page, text);
    }
    hfd_free(text);
    return code;
}

/* Least privilege.  Commented: the account's name is the DBA's to choose. */
static void say_rights(const sql_ddl_page *page)
{
    static const char *const changed[] = {"session", "queue", "value"};
    bool mysql = page->dialect->quote == '`';
    const char *who = mysql ? "'app'@'%'" : "app";
    char line[240];

    sql_ddl_say(page, "",
                "\n-- The application's account needs these and no more (with "
                "create=no in its\n-- URL); put its name for app:");
    if (page->schema[0] && !mysql) {
        snprintf(line, sizeof line, "--   GRANT USAGE ON SCHEMA \"%s\" TO app;",
                 page->schema);
        page->fn(line, page->user);
    }
    snprintf(line, sizeof line, "--   GRANT SELECT, UPDATE ON %%T TO %s;", who);
    sql_ddl_say(page, "meta", line);
    snprintf(line, sizeof line,
             "--   GRANT SELECT, INSERT, UPDATE, DELETE ON %%T TO %s;", who);
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        sql_ddl_say(page, changed[i], line);
}

static int say_native(const sql_ddl_page *page, hf_error *err)
{
    char line[240];
    int code;

    snprintf(line, sizeof line,
             "-- What holdfast stores locks in (%s); prefix=%s%s%s.\n"
             "-- Run it once; a second time it does nothing.",
             page->dialect->name, page->prefix,
             page->schema[0] ? "&schema=" : "", page->schema);
    sql_ddl_say(page, "", line);
    code = say_tables(page, err);
    if (code == 0)
        say_rights(page);
    return code;
}

/* ---- The URL ---- */

static int read_name(const hf_url *url, const char *option, const char **io,
                     const char *driver, hf_error *err)
{
    const char *name = hfd_url_option(url, option);

    if (!name)
        return 0;
    for (size_t i = 0; name[i]; i++) {
        bool letter = isalpha((unsigned char)name[i]) || name[i] == '_';

        if (i >= NAME_MAX_LEN ||
            (!letter && (i == 0 || !isdigit((unsigned char)name[i]))))
            return hfd_error(err, HF_EURL, driver, 0,
                             "%s='%.60s': letters, digits and _, at most %d, "
                             "not a digit first",
                             option, name, NAME_MAX_LEN);
    }
    *io = name;
    return 0;
}

typedef struct emitter {
    const sql_ddl_page *page;
} emitter;

static void pass_line(void *to, const char *text)
{
    const emitter *e = to;

    e->page->fn(text, e->page->user);
}

/* Another library's layout: its own text. */
static int say_format(const sql_ddl_page *page, const sql_format *const *all,
                      const char *name, hf_error *err)
{
    emitter to = {.page = page};

    for (; *all; all++) {
        if (strcmp((*all)->name, name) != 0)
            continue;
        if (!(*all)->ddl)
            return hfd_error(err, HF_ENOTSUP, page->dialect->name, 0,
                             "format=%s has no tables", name);
        (*all)->ddl(page->dialect, page->schema, page->prefix, pass_line, &to);
        return 0;
    }
    return hfd_error(err, HF_EURL, page->dialect->name, 0,
                     "there is no format=%.40s here", name);
}

int sql_ddl(const sql_dialect *dialect, const sql_format *const *formats,
            const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
            hf_error *err)
{
    const char *format = hfd_url_option(url, "format");
    sql_ddl_page page = {.dialect = dialect,
                         .schema = "",
                         .prefix = SQL_PREFIX,
                         .fn = fn,
                         .user = user};
    int code = read_name(url, "schema", &page.schema, dialect->name, err);

    if (code == 0)
        code = read_name(url, "prefix", &page.prefix, dialect->name, err);
    if (code)
        return code;
    if (guard) {
        sql_ddl_guard(&page);
        return 0;
    }
    if (format && strcmp(format, formats[0]->name) != 0)
        return say_format(&page, formats, format, err);
    return say_native(&page, err);
}
