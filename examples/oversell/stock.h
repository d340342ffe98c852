/* stock.h - the shop's database: one row of stock, and the orders taken.
 *
 * On SQLite (stock.c; the locks may be elsewhere) or on PostgreSQL
 * (stock_postgres.c): two programs. */
#ifndef STOCK_H
#define STOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct stock stock;

/* Every function ends the program with one line if the database fails. */

/* Before anything else: the word of the command line, or NULL.  False: this
 * program cannot use it. */
bool stock_choose(const char *where);
/* After everything else: nothing of ours stays in a server. */
void stock_leave_nothing(void);
/* The URL of the store for locks; `path` is a file that it may use. */
void stock_locks(char *ret, size_t cap, const char *path);

stock *stock_open(const char *path);
void stock_close(stock *s);

/* Empty the shop and fill it again: `items` left, no orders. */
void stock_fill(stock *s, int items);

int stock_left(stock *s);
int stock_orders(stock *s);

/* Write back what is left, and note an order, in one transaction. */
void stock_sell(stock *s, int left);

/* The same, but only if no later holder has written: the database itself
 * compares the tokens.  False: refused, nothing was written. */
bool stock_sell_fenced(stock *s, int left, uint64_t token);

/* What stands before the token in the check, for the reader. */
extern const char stock_fence[];

/* Print one line and end the process with 2. */
void die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

#endif
