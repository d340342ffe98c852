/* dialect.h - one list of statements, said in the words of each database.
 *
 * statements.h has each statement once, as a template; a dialect is a handful
 * of words.  sql_render makes the texts when a store is opened:
 *
 *   @queue @session @meta @value   our tables, with prefix, quoted
 *   ?1 ?2 ...                      parameters ($1 or ?, in the right order)
 *   @now                           the server's clock, whole microseconds
 *   @from(counter)                 where the next numbers begin: the counter,
 *                                  or the clock if that is ahead, so that they
 *                                  rise although a failover lost some
 *   @epoch                         what changes when its memory may be lost
 *   @key(?1)                       a key, given in hex
 *   @hex(k)                        a key, as hex
 *   @cat(a, b, ...)                texts and numbers, one behind another
 *   @pos(a, b)                     where text a begins in text b; 0: nowhere
 *   @head(body) @len(body)         its first SQL_HEAD characters; how many
 *   @text(n) @int(?1)              a number as text; a parameter as a number
 *   @keys(?1) @ids(?1)             a list of SQL_MANY parameters from here
 *   @few                           not many rows, where it can be said
 *   @share                         see below
 *
 * Where now is NULL, @now is 0: every exp_us is then a ttl and greater, so that
 * a session's row lives until it is deleted, EVICT finds nothing over, nothing
 * counts as idle, and an instant in a body is a duration.  A store that is to
 * trust no clock (clock=observer) renders with a copy whose now is NULL. */
#ifndef HF_DRIVERS_SQL_DIALECT_H
#define HF_DRIVERS_SQL_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/driver.h>

enum {
    SQL_HEAD = 600,    /* of a queue: enough for some seven entries */
    SQL_MANY = 32,     /* keys or ids in one statement */
    SQL_PARAMS = 40,   /* of one statement */
    SQL_BELL_MAX = 64, /* address of a listener */
    SQL_TEXT_MAX = 3000,
    SQL_FORMAT = 1 /* of the tables, in meta.format */
};

typedef struct sql_wake { /* whose turn it is */
    char sid[23], rid[23];
    uint64_t num; /* 0: look; SQL_TAKEN: an operator took it away */
    uint32_t run; /* with a num: how many numbers it owns from there */
} sql_wake;
#define SQL_TAKEN UINT64_MAX

typedef struct sql_dialect {
    const char *name; /* "postgres" */
    bool numbered;    /* $1, $2; else ?, in order */
    char quote;       /* of identifiers: '"' or '`' */
    /* UPDATE ... RETURNING, or overrides that do the same; else that part is
     * left out of the templates, and the store asks again after it. */
    bool returning;
    const char *now;   /* an expression; NULL: clock=observer only */
    const char *epoch; /* NULL: strict=yes is refused */
    /* The larger of % and a clock that stands still within a statement. */
    const char *from;
    const char *key_in; /* "decode(%, 'hex')": % is the argument */
    const char *key_out;
    const char *cat;  /* "||", or NULL: CONCAT(...) */
    const char *pos;  /* "strpos(%2, %1)": %1 is sought in %2 */
    const char *head; /* "left(%, 600)" */
    const char *len;  /* "length(%)" */
    const char *text; /* "CAST(% AS text)" */
    const char *integer;
    const char *share; /* behind a SELECT whose row must not change before the
                          commit: "FOR SHARE"; "" where one writer at a time is
                          all there is; NULL: cannot, and nothing is purged */
    const char *few;   /* "LIMIT 100"; "": all rows come */
    const char *const *overrides; /* name, template, name, template, NULL */
    /* Tables: templates, run one by one where they are missing.  Running them
     * again, or two clients at once, does no harm; one of the two may be told
     * that a table is there, or CLASH. */
    const char *const *tables;
} sql_dialect;

extern const sql_dialect sql_postgres, sql_mariadb, sql_mysql, sql_sqlite,
    sql_generic;

#include "statements.h"

typedef enum sql_id {
#define SQL_ENUM(name, writes, text) SQL_##name,
    SQL_STATEMENTS(SQL_ENUM) SQL_COUNT
#undef SQL_ENUM
} sql_id;

typedef struct sql_text {
    sql_id id;
    bool writes;
    uint8_t order[SQL_PARAMS]; /* which parameter (from 0) each place has */
    uint8_t count;             /* places */
    char text[SQL_TEXT_MAX];
} sql_text;

/* schema may be "", prefix is letters, digits, _; both checked before. */
int sql_render(sql_text texts[SQL_COUNT], const sql_dialect *dialect,
               const char *schema, const char *prefix, hf_error *err);
/* One template, for tables; ret has room for SQL_TEXT_MAX. */
int sql_render_one(char *ret, const sql_dialect *dialect, const char *schema,
                   const char *prefix, const char *template, hf_error *err);

#endif
