/* json.h - writing JSON into a text. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "text.h"

struct json {
    struct text *out;
    bool comma; /* something stands before the next one */
};

/* `name` NULL: an element of an array, or the whole document. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);
void json_number(struct json *j, const char *name, int64_t number);
void json_unsigned(struct json *j, const char *name, uint64_t number);
void json_bool(struct json *j, const char *name, bool value);
void json_null(struct json *j, const char *name);
void json_string(struct json *j, const char *name, const char *string);
/* Any bytes: as text; if they are no UTF-8, also in full as NAME_hex. */
void json_bytes(struct json *j, const char *name, const void *bytes,
                size_t len);

#endif
