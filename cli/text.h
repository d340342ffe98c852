/* text.h - a growing text, and the ways in which bytes of others are shown. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised it is empty.  Running out of memory is remembered, not
 * told at each call: text_write answers it. */
struct text {
    char *data;
    size_t len, cap;
    bool failed;
};

void text_free(struct text *t);
void text_add(struct text *t, const void *bytes, size_t len);
void text_put(struct text *t, const char *string);
void text_format(struct text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As a shell would read it back: bare where that is safe, else '...', or
 * $'...' where something must be escaped. */
void text_quote(struct text *t, const void *bytes, size_t len);
/* The same, always between quotes: for sentences. */
void text_name(struct text *t, const void *bytes, size_t len);
/* "12 ms", "3.5 s", "4 min", "2 h", "5 d"; "?" when negative. */
void text_span(struct text *t, int64_t ms);

/* Columns that the text from `from` on takes on a terminal. */
size_t text_width(const struct text *t, size_t from);

/* Write it all to fd and empty it; 0, or an errno. */
int text_write(struct text *t, int fd);

/* The length of the well-formed UTF-8 sequence at the beginning of s, with its
 * character in *ret; 0: none. */
size_t utf8_length(const unsigned char *s, size_t len, uint32_t *ret);

#endif
