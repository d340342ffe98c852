/* cmd_ls.c - holdfast ls: every lock that is held or waited for.
 *
 * A table for people, an array for programs.  Nothing is printed unless the
 * whole listing succeeded. */
#include <string.h>

#include "entry.h"
#include "simple.h"

enum { COLUMNS = 9 };
static const char *const titles[COLUMNS] = {
    "KEY", "MODE", "STATE", "TOKEN", "HOST", "PID", "NAME", "AGE", "LEFT"};

/* One cell; empty ones are a dash, so that columns can be counted. */
static void add_cell(struct text *t, const hf_entry_info *e, int column)
{
    size_t begin = t->len;
    switch (column) {
    case 0:
        text_quote(t, e->key, e->key_len);
        break;
    case 1:
        text_put(t, entry_mode(e));
        if (e->mode == HF_PERMIT)
            text_format(t, "/%u", e->places);
        break;
    case 2:
        text_put(t, entry_state(e));
        break;
    case 3:
        if (e->token != 0)
            text_format(t, "%llu", (unsigned long long)e->token);
        break;
    case 4:
        if (e->host[0] != '\0')
            text_quote(t, e->host, strlen(e->host));
        break;
    case 5:
        if (e->pid > 0)
            text_format(t, "%lld", (long long)e->pid);
        break;
    case 6:
        if (e->name[0] != '\0')
            text_quote(t, e->name, strlen(e->name));
        break;
    case 7:
        text_span(t, e->age_ms);
        break;
    default:
        text_span(t, e->remaining_ms);
        break;
    }
    if (t->len == begin)
        text_put(t, "-");
}

static void measure(const struct entry_list *list, size_t width[COLUMNS])
{
    struct text cell = {0};
    for (int c = 0; c < COLUMNS; c++)
        width[c] = strlen(titles[c]);
    for (size_t i = 0; i < list->count; i++)
        for (int c = 0; c < COLUMNS; c++) {
            cell.len = 0;
            add_cell(&cell, &list->items[i], c);
            size_t w = text_width(&cell, 0);
            width[c] = w > width[c] ? w : width[c];
        }
    text_free(&cell);
}

/* Row -1 is the head. */
static void add_row(struct text *out, const struct entry_list *list, long row,
                    const size_t width[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        size_t begin = out->len;
        if (row < 0)
            text_put(out, titles[c]);
        else
            add_cell(out, &list->items[row], c);
        size_t w = text_width(out, begin);
        for (; c < COLUMNS - 1 && w < width[c] + 2; w++)
            text_put(out, " ");
    }
    text_put(out, "\n");
}

static int print_list(const struct simple *w, const struct entry_list *list)
{
    struct text out = {0};
    if (w->common.json) {
        struct json j = {.out = &out};
        json_open(&j, NULL, '[');
        for (size_t i = 0; i < list->count; i++) {
            text_put(&out, "\n");
            entry_json(&j, &list->items[i], true);
        }
        text_put(&out, "\n");
        json_close(&j, ']');
        text_put(&out, "\n");
        return say_output(&out);
    }
    size_t width[COLUMNS];
    measure(list, width);
    if (list->count > 0)
        add_row(&out, list, -1, width);
    for (size_t i = 0; i < list->count; i++)
        add_row(&out, list, (long)i, width);
    return say_output(&out);
}

static const struct arg_option options[] = {ARG_COMMON_OPTIONS, {0}};

static int main_ls(int argc, char **argv)
{
    struct simple w;
    struct entry_list list = {0};
    hf_session *s;
    hf_error err;
    int got = simple_read(&command_ls, options, argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    int status = simple_open(&w, &s);
    if (status != 0)
        return status;
    if (entry_collect(s, w.word, false, &list, &err) != 0)
        status = say_failure(&err);
    else
        status = print_list(&w, &list);
    if (status == 0 && list.count == 0)
        say_note("nothing is held or waited for");
    entry_free(&list);
    hf_close(s);
    return status;
}

const struct command command_ls = {
    .name = "ls",
    .summary = "list who holds what, and who waits",
    .help =
        "usage: holdfast ls [options] [PREFIX]\n"
        "\n"
        "List every lock that is held or waited for, or those whose key "
        "begins\n"
        "with PREFIX: each queue in its order, holders first.\n"
        "\n"
        "  holdfast ls                  all\n"
        "  holdfast ls /invoice/        keys that begin so\n"
        "  holdfast ls --json | jq '.[] | select(.state == \"waits\") | .key'\n"
        "\n"
        "Columns: KEY, MODE (exclusive, shared, permit/N), STATE (held, "
        "waits,\n"
        "broken: an operator took it away, kept: released, but --at-least\n"
        "still runs), TOKEN, HOST, PID, NAME (--owner), AGE since it joined,\n"
        "LEFT of the lease unless it is renewed.  Keys are shown as a shell\n"
        "would read them.\n"
        "\n"
        "Options:\n"
        "      --json      one array of objects\n"
        "      --url URL   the store ($HOLDFAST_URL); --url-file FILE\n"
        "  -q, --quiet     errors by status only     -v, --verbose  say more\n",
    .main = main_ls};
