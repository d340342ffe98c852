/* cmd_show.c - holdfast show: one lock, its holders and its queue.
 *
 * What an operator asks when something stands still: who has it, since when,
 * with which token and value, and who waits in which order. */
#include <string.h>

#include "entry.h"
#include "simple.h"

static void print_entry(struct text *out, const hf_entry_info *e,
                        unsigned place)
{
    if (e->granted)
        text_put(out, "  holder ");
    else
        text_format(out, "  waiter %u ", place);
    entry_who(out, e);
    text_format(out, ", %s", entry_mode(e));
    if (e->mode == HF_PERMIT)
        text_format(out, " (one of %u)", e->places);
    if (e->granted)
        text_format(out, ", token %llu", (unsigned long long)e->token);
    text_put(out, e->granted ? ", held for " : ", waits for ");
    text_span(out, e->age_ms);
    if (e->remaining_ms >= 0) {
        text_put(out,
                 e->closed ? ", released and kept for " : ", lease ends in ");
        text_span(out, e->remaining_ms);
        text_put(out, e->closed ? "" : " unless renewed");
    }
    if (e->broken)
        text_put(out, ", broken by an operator");
    text_put(out, "\n");
    if (e->value_len > 0) {
        text_put(out, "    value ");
        text_quote(out, e->value, e->value_len);
        text_put(out, "\n");
    }
}

static void print_text(struct text *out, const char *key,
                       const struct entry_list *list)
{
    size_t waiters = 0;
    text_name(out, key, strlen(key));
    text_put(out, list->count == 0 ? " is free\n" : "\n");
    for (size_t i = 0; i < list->count; i++) {
        waiters += !list->items[i].granted;
        print_entry(out, &list->items[i], (unsigned)waiters);
    }
}

static void print_json(struct text *out, const char *key,
                       const struct entry_list *list)
{
    struct json j = {.out = out};
    json_open(&j, NULL, '{');
    json_bytes(&j, "key", key, strlen(key));
    for (int granted = 1; granted >= 0; granted--) {
        json_open(&j, granted ? "holders" : "waiters", '[');
        for (size_t i = 0; i < list->count; i++)
            if (list->items[i].granted == (granted == 1))
                entry_json(&j, &list->items[i], false);
        json_close(&j, ']');
    }
    json_close(&j, '}');
    text_put(out, "\n");
}

static const struct arg_option options[] = {ARG_COMMON_OPTIONS, {0}};

static int main_show(int argc, char **argv)
{
    struct simple w;
    struct entry_list list = {0};
    struct text out = {0};
    hf_session *s;
    hf_error err;
    int got = simple_read(&command_show, options, argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    int status = simple_open_key(&w, "show", "show", &s);
    if (status != 0)
        return status;
    if (entry_collect(s, w.word, true, &list, &err) != 0) {
        status = say_failure(&err);
    } else {
        (w.common.json ? print_json : print_text)(&out, w.word, &list);
        status = say_output(&out);
    }
    entry_free(&list);
    hf_close(s);
    return status;
}

const struct command command_show = {
    .name = "show",
    .summary = "show one lock: its holders and its queue",
    .help = "usage: holdfast show [options] KEY\n"
            "\n"
            "Show who holds KEY, with token, age and value, and who waits for "
            "it, in\n"
            "the order in which they will get it.\n"
            "\n"
            "  holdfast show nightly\n"
            "  holdfast show --json nightly | jq '.holders[0].pid'\n"
            "\n"
            "Options:\n"
            "      --json      one object: key, holders, waiters\n"
            "      --url URL   the store ($HOLDFAST_URL); --url-file FILE\n"
            "  -q, --quiet     errors by status only     -v, --verbose  say "
            "more\n",
    .main = main_show};
