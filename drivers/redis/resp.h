/* resp.h - Redis's protocol (RESP2): commands out, replies in.
 *
 * Replies are read where they lie: nothing is copied, nothing allocated.  A
 * reply is handed on only when all of it is there and well formed, so whoever
 * walks it need not be afraid of its end. */
#ifndef HF_DRIVERS_REDIS_RESP_H
#define HF_DRIVERS_REDIS_RESP_H

#include <stdint.h>

#include "net/buf.h"

/* ---- Commands ---- */

void resp_command(hf__buf *out, unsigned words); /* then so many words: */
void resp_word(hf__buf *out, const void *bytes, size_t len);
void resp_text(hf__buf *out, const char *text); /* a word, NUL-terminated */
void resp_number(hf__buf *out, int64_t number); /* a word, in decimal */
enum { RESP_DIGITS = 20 };
/* Written in front of end, at most so many; where it begins. */
char *resp_digits(char *end, int64_t number);

/* ---- Replies ---- */

enum { RESP_DEPTH_MAX = 8 };
#define RESP_SIZE_MAX ((size_t)64 << 20) /* of one reply */

typedef enum resp_type {
    RESP_NIL = 0,
    RESP_STATUS,
    RESP_ERROR,
    RESP_INTEGER,
    RESP_STRING,
    RESP_ARRAY
} resp_type;

typedef struct resp {
    resp_type type;
    int64_t number;   /* of an integer; how many in an array */
    const char *text; /* of status, error, string; not NUL-terminated */
    size_t len;
    const char *inside; /* an array's first element, if it has one */
    const char *after;  /* the first byte behind it */
} resp;

/* Bytes of the reply at the front: 0: not all there yet; -1: not RESP2, or
 * larger or deeper than we take. */
long resp_size(const char *bytes, size_t len);
/* The same for bytes that come in pieces, each time from the reply's front: the
 * scan goes on where it stopped.  Zeroed before the first piece and after an
 * answer that is not 0. */
typedef struct resp_scan {
    size_t at;
    unsigned depth;
    int64_t left[RESP_DEPTH_MAX]; /* elements that each open array lacks */
} resp_scan;
long resp_more(resp_scan *scan, const char *bytes, size_t len);
/* Of a reply that resp_size found whole. */
resp resp_at(const char *bytes);
/* The i-th element of an array; RESP_NIL where there is none. */
resp resp_item(const resp *array, size_t i);
/* Walk: resp_item(a, 0), then resp_at(item.after) while elements are left. */

bool resp_is(const resp *reply, const char *text); /* status or string */
/* An integer, or a string of decimal digits; else `otherwise`. */
int64_t resp_int(const resp *reply, int64_t otherwise);
bool resp_begins(const resp *reply, const char *word); /* its text */

#endif
