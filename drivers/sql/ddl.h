/* ddl.h - the tables as text, for who may make them (holdfast ddl). */
#ifndef HF_DRIVERS_SQL_DDL_H
#define HF_DRIVERS_SQL_DDL_H

#include "store.h"

/* For the `ddl` of a driver: formats as given to sql_store_open, first the
 * native one. */
int sql_ddl(const sql_dialect *dialect, const sql_format *const *formats,
            const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
            hf_error *err);

/* ---- ddl_guard.c ---- */

typedef struct sql_ddl_page {
    const sql_dialect *dialect;
    const char *schema, *prefix;
    hf_ddl_fn *fn;
    void *user;
} sql_ddl_page;

/* Lines of text; "%T" in it is the table of this name, quoted, with schema and
 * prefix. */
void sql_ddl_say(const sql_ddl_page *page, const char *name, const char *text);
void sql_ddl_guard(const sql_ddl_page *page);

#endif
