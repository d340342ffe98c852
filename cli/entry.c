/* entry.c - who holds and who waits, collected and shown.
 *
 * hf_list lends each entry for the length of a callback; here they are copied,
 * so that a table can be measured before it is printed and nothing is printed
 * of a listing that fails half-way.  Knows nothing of options or exits.
 *
 * Keys, names and values are others' bytes and pass through text_quote or
 * json_bytes. */
#include "entry.h"

#include <stdlib.h>
#include <string.h>

#include "say.h"

struct collector {
    struct entry_list *list;
    const char *only;
    size_t only_len;
};

/* A copy with a NUL behind it; NULL: no memory. */
static void *copy_bytes(const void *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy != NULL) {
        if (len > 0)
            memcpy(copy, bytes, len);
        copy[len] = '\0';
    }
    return copy;
}

static void free_item(hf_entry_info *e)
{
    free((void *)e->key);
    free((void *)e->host);
    free((void *)e->name);
    free((void *)e->value);
}

static int collect_one(const hf_entry_info *entry, void *user)
{
    struct collector *c = user;
    struct entry_list *list = c->list;
    if (c->only != NULL && (entry->key_len != c->only_len ||
                            memcmp(entry->key, c->only, c->only_len) != 0))
        return 0;
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        hf_entry_info *items = realloc(list->items, cap * sizeof(*items));
        if (items == NULL)
            return HF_ENOMEM;
        list->items = items;
        list->cap = cap;
    }
    hf_entry_info *e = &list->items[list->count];
    *e = *entry;
    e->key = copy_bytes(entry->key, entry->key_len);
    e->host = copy_bytes(entry->host, entry->host ? strlen(entry->host) : 0);
    e->name = copy_bytes(entry->name, entry->name ? strlen(entry->name) : 0);
    e->value = copy_bytes(entry->value, entry->value_len);
    if (!e->key || !e->host || !e->name || !e->value) {
        free_item(e);
        return HF_ENOMEM;
    }
    list->count++;
    return 0;
}

int entry_collect(hf_session *s, const char *prefix, bool exact,
                  struct entry_list *ret, hf_error *err)
{
    struct collector c = {.list = ret, .only = exact ? prefix : NULL};
    c.only_len = exact ? strlen(prefix) : 0;
    hf_error ignored;
    if (err == NULL)
        err = &ignored;
    *err = (hf_error){0};
    int code = hf_list(s, prefix, collect_one, &c, err);
    /* What our own callback returned has no text yet. */
    if (code != 0 && err->code == 0) {
        err->code = code;
        strncpy(err->text, hf_strerror(code), sizeof(err->text) - 1);
    }
    return code;
}

void entry_free(struct entry_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_item(&list->items[i]);
    free(list->items);
    *list = (struct entry_list){0};
}

const char *entry_mode(const hf_entry_info *e)
{
    return e->mode == HF_SHARED   ? "shared"
           : e->mode == HF_PERMIT ? "permit"
                                  : "exclusive";
}

const char *entry_state(const hf_entry_info *e)
{
    return e->closed    ? "kept"
           : e->broken  ? "broken"
           : e->granted ? "held"
                        : "waits";
}

void entry_json(struct json *j, const hf_entry_info *e, bool with_key)
{
    json_open(j, NULL, '{');
    if (with_key)
        json_bytes(j, "key", e->key, e->key_len);
    json_string(j, "mode", entry_mode(e));
    json_string(j, "state", entry_state(e));
    json_bool(j, "granted", e->granted);
    if (e->mode == HF_PERMIT)
        json_unsigned(j, "slots", e->places);
    json_unsigned(j, "number", e->number);
    json_unsigned(j, "token", e->token);
    json_bytes(j, "host", e->host, strlen(e->host));
    json_number(j, "pid", e->pid);
    json_bytes(j, "name", e->name, strlen(e->name));
    if (e->age_ms >= 0)
        json_number(j, "age_ms", e->age_ms);
    else
        json_null(j, "age_ms");
    if (e->remaining_ms >= 0)
        json_number(j, "remaining_ms", e->remaining_ms);
    else
        json_null(j, "remaining_ms");
    if (e->value_len > 0)
        json_bytes(j, "value", e->value, e->value_len);
    json_close(j, '}');
}

void entry_who(struct text *t, const hf_entry_info *e)
{
    if (e->host[0] != '\0')
        text_quote(t, e->host, strlen(e->host));
    else
        text_put(t, "?");
    if (e->pid > 0)
        text_format(t, ":%lld", (long long)e->pid);
    if (e->name[0] != '\0') {
        text_put(t, " (");
        text_quote(t, e->name, strlen(e->name));
        text_put(t, ")");
    }
}

void entry_say_busy(const char *key, const struct entry_list *list)
{
    struct text line = {0};
    size_t holders = 0;
    if (say_is_json()) {
        struct json j;
        event_begin(&j, &line, "busy");
        json_bytes(&j, "key", key, strlen(key));
        json_open(&j, "entries", '[');
        for (size_t i = 0; i < list->count; i++)
            entry_json(&j, &list->items[i], false);
        json_close(&j, ']');
        event_end(&j);
        return;
    }
    text_name(&line, key, strlen(key));
    for (size_t i = 0; i < list->count; i++) {
        const hf_entry_info *e = &list->items[i];
        if (!e->granted)
            continue;
        text_put(&line, holders++ == 0 ? " is held by " : ", ");
        entry_who(&line, e);
        text_format(&line, ", token %llu, since ",
                    (unsigned long long)e->token);
        text_span(&line, e->age_ms);
    }
    if (holders == 0)
        text_put(&line, " was busy and is free now");
    say_text(&line);
}
