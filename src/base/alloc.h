/* alloc.h - all memory of the library, through one replaceable function. */
#ifndef HF_BASE_ALLOC_H
#define HF_BASE_ALLOC_H

#include <stddef.h>

#include <holdfast/driver.h>

/* A copy of len bytes with a NUL behind them; NULL: none left. */
char *hf__alloc_text(const char *text, size_t len);

#endif
