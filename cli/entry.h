/* entry.h - who holds and who waits, collected and shown. */
#ifndef CLI_ENTRY_H
#define CLI_ENTRY_H

#include <holdfast/holdfast.h>

#include "json.h"

struct entry_list {
    hf_entry_info *items; /* their strings and bytes are ours */
    size_t count, cap;
};

/* All entries under `prefix` (NULL: all), or with `exact` those of that key
 * alone.  0 or a code. */
int entry_collect(hf_session *s, const char *prefix, bool exact,
                  struct entry_list *ret, hf_error *err);
void entry_free(struct entry_list *list);

const char *entry_mode(const hf_entry_info *e);  /* "exclusive" */
const char *entry_state(const hf_entry_info *e); /* "held" */
/* The whole of it as an object; the key only if it is asked for. */
void entry_json(struct json *j, const hf_entry_info *e, bool with_key);
/* host:pid (name), as far as it is known. */
void entry_who(struct text *t, const hf_entry_info *e);

/* 'KEY' is held by ...; the line or event of a busy lock. */
void entry_say_busy(const char *key, const struct entry_list *list);

#endif
