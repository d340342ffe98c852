/* stock.h - the shop's database: one row of stock, and the orders taken. */
#ifndef STOCK_H
#define STOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct stock stock;

/* Every function ends the program with one line if the database fails. */
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

/* Print one line and end the process with 2. */
void die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

#endif
