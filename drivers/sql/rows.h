/* rows.h - the answer of a statement: rows of text cells in one buffer.
 *
 * One per connection or operation, used again and again: after a while it
 * allocates nothing. */
#ifndef HF_DRIVERS_SQL_ROWS_H
#define HF_DRIVERS_SQL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sql_rows {
    size_t rows, cols;
    int64_t affected; /* by a statement that answers no rows; -1: unknown */
    char *text;       /* the cells, each ended by NUL */
    size_t text_len, text_room;
    size_t *cells; /* where each begins in text; SIZE_MAX: NULL */
    size_t cell_count, cell_room;
    bool failed; /* an allocation failed: it is not whole */
} sql_rows;

void sql_rows_reset(sql_rows *rows); /* empty, keeps its memory */
void sql_rows_done(sql_rows *rows);  /* frees */
/* For ports: cells come row by row, cols of them each; then end the row. */
void sql_rows_add(sql_rows *rows, const char *text, size_t len);
void sql_rows_add_null(sql_rows *rows);
void sql_rows_end_row(sql_rows *rows);

/* NULL: SQL's NULL, or no such cell. */
const char *sql_cell(const sql_rows *rows, size_t row, size_t col);
/* A number; `other` where there is none. */
int64_t sql_number(const sql_rows *rows, size_t row, size_t col, int64_t other);
/* Microseconds that can be counted with, whatever stands there: a span of at
 * most SQL_SPAN_MAX to either side, an instant from 0 to SQL_INSTANT_MAX (what
 * is no such instant is 0: not told). */
#define SQL_SPAN_MAX (INT64_C(86400) * 3650 * 1000000)
#define SQL_INSTANT_MAX (INT64_C(1) << 57)
int64_t sql_span(const sql_rows *rows, size_t row, size_t col, int64_t other);
int64_t sql_instant(const sql_rows *rows, size_t row, size_t col);

#endif
