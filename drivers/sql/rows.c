/* rows.c - the answer of a statement: rows of text cells in one buffer.
 *
 * Answers: what stands in this row and that column?  Knows nothing of databases
 * or of what the cells mean.  Cells are found by where they begin, not by
 * address, since the buffer moves when it grows; so a cell's text is good until
 * the next add.
 *
 * An allocation that fails is remembered in `failed` and everything behind it
 * is left out: a port adds without asking each time, and who reads asks once,
 * before believing that what is not there is not there. */
#include "rows.h"

#include <holdfast/driver.h>

#include <string.h>

enum { TEXT_FIRST = 1024, CELLS_FIRST = 32 };

void sql_rows_reset(sql_rows *rows)
{
    rows->rows = rows->cols = 0;
    rows->affected = -1;
    rows->text_len = rows->cell_count = 0;
    rows->failed = false;
}

void sql_rows_done(sql_rows *rows)
{
    hfd_free(rows->text);
    hfd_free(rows->cells);
    *rows = (sql_rows){.affected = -1};
}

static bool make_room(sql_rows *rows, size_t len)
{
    if (rows->failed)
        return false;
    if (rows->cell_count == rows->cell_room) {
        size_t room = rows->cell_room ? 2 * rows->cell_room : CELLS_FIRST;
        size_t *cells = hfd_realloc(rows->cells, room * sizeof *cells);

        rows->failed = cells == NULL;
        if (rows->failed)
            return false;
        rows->cells = cells;
        rows->cell_room = room;
    }
    if (len > rows->text_room - rows->text_len) {
        size_t room = rows->text_room ? 2 * rows->text_room : TEXT_FIRST;
        char *text;

        while (room - rows->text_len < len)
            room *= 2;
        text = hfd_realloc(rows->text, room);
        rows->failed = text == NULL;
        if (rows->failed)
            return false;
        rows->text = text;
        rows->text_room = room;
    }
    return true;
}

void sql_rows_add(sql_rows *rows, const char *text, size_t len)
{
    if (!make_room(rows, len + 1))
        return;
    rows->cells[rows->cell_count++] = rows->text_len;
    if (len > 0)
        memcpy(rows->text + rows->text_len, text, len);
    rows->text_len += len;
    rows->text[rows->text_len++] = '\0';
}

void sql_rows_add_null(sql_rows *rows)
{
    if (make_room(rows, 0))
        rows->cells[rows->cell_count++] = SIZE_MAX;
}

void sql_rows_end_row(sql_rows *rows)
{
    if (rows->failed)
        return;
    /* The first row says how wide they all are. */
    if (rows->rows == 0)
        rows->cols = rows->cell_count;
    rows->rows++;
}

const char *sql_cell(const sql_rows *rows, size_t row, size_t col)
{
    size_t at;

    if (row >= rows->rows || col >= rows->cols)
        return NULL;
    at = row * rows->cols + col;
    if (at >= rows->cell_count || rows->cells[at] == SIZE_MAX)
        return NULL;
    return rows->text + rows->cells[at];
}

int64_t sql_number(const sql_rows *rows, size_t row, size_t col, int64_t other)
{
    const char *text = sql_cell(rows, row, col);
    bool minus;
    uint64_t number = 0;

    if (!text)
        return other;
    minus = *text == '-';
    if (minus)
        text++;
    if (*text == '\0')
        return other;
    for (; *text; text++) {
        unsigned digit = (unsigned)*text - '0';

        if (digit > 9 || number > (uint64_t)INT64_MAX / 10)
            return other;
        number = number * 10 + digit;
        if (number > (uint64_t)INT64_MAX)
            return other;
    }
    return minus ? -(int64_t)number : (int64_t)number;
}

int64_t sql_span(const sql_rows *rows, size_t row, size_t col, int64_t other)
{
    int64_t us = sql_number(rows, row, col, other);

    return us > SQL_SPAN_MAX    ? SQL_SPAN_MAX
           : us < -SQL_SPAN_MAX ? -SQL_SPAN_MAX
                                : us;
}

int64_t sql_instant(const sql_rows *rows, size_t row, size_t col)
{
    int64_t us = sql_number(rows, row, col, 0);

    return us > 0 && us <= SQL_INSTANT_MAX ? us : 0;
}
