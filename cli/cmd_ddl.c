/* cmd_ddl.c - holdfast ddl: what a database must have, for who may make it.
 *
 * Where the application's account may not create tables somebody else does, and
 * wants to read first what that will be.  The text is the driver's own, the
 * same that it would run; no database is reached for it.  --guard prints the
 * other half of a lock, the check of its token where the data is. */
#include <errno.h>
#include <string.h>

#include "full.h"
#include "simple.h"

struct wish {
    struct common common;
    const char *scheme, *schema, *prefix, *format;
    bool guard;
};

static const struct arg_option options[] = {
    ARG_COMMON_OPTIONS, ARG_DDL_OPTIONS, {0}};

static int take_word(struct wish *w, const char *value)
{
    if (w->scheme != NULL)
        return say_usage("ddl", "'%s' is one word too many", value);
    w->scheme = value;
    return 0;
}

/* ARG_HELP (it is printed), ARG_BAD or 0. */
static int read_wish(int argc, char **argv, struct wish *ret)
{
    struct args a = {"ddl", options, argc, argv, 1, NULL, false};
    const char *value = NULL;
    int id;
    while ((id = args_next(&a, &value)) != ARG_END) {
        if (id == ARG_HELP) {
            struct text out = {0};
            text_put(&out, command_ddl.help);
            return say_output(&out) == 0 ? ARG_HELP : ARG_BAD;
        }
        if (id == ARG_BAD || (id == ARG_WORD && take_word(ret, value) != 0))
            return ARG_BAD;
        if (id == ARG_SCHEMA)
            ret->schema = value;
        else if (id == ARG_PREFIX)
            ret->prefix = value;
        else if (id == ARG_FORMAT)
            ret->format = value;
        else if (id == ARG_GUARD)
            ret->guard = true;
        else if (id != ARG_WORD &&
                 common_take(&ret->common, &a, id, value) == ARG_BAD)
            return ARG_BAD;
    }
    say_log();
    return 0;
}

/* A name is put into a URL as it is; the driver checks it again, but a '&'
 * would have become another option by then. */
static bool is_name(const char *text)
{
    return text[0] != '\0' &&
           strspn(text,
                  "abcdefghijklmnopqrstuvwxyz"
                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(text);
}

static int add_option(struct text *url, char *sep, const char *name,
                      const char *value)
{
    if (value == NULL)
        return 0;
    if (!is_name(value))
        return say_usage("ddl", "--%s '%s' may have letters, digits and _ only",
                         name, value);
    text_format(url, "%c%s=%s", *sep, name, value);
    *sep = '&';
    return 0;
}

/* SCHEME and the options, or the URL that the application uses with them
 * behind it. */
static int make_url(const struct wish *w, struct text *ret)
{
    char sep = '?';
    if (w->scheme != NULL && w->common.url != NULL)
        return say_usage("ddl", "say '%s' or --url, not both", w->scheme);
    if (w->scheme == NULL && w->common.url == NULL)
        return say_usage("ddl", "which database? For example: holdfast ddl "
                                "postgres");
    if (w->scheme != NULL)
        text_format(ret, "%s%s", w->scheme,
                    strchr(w->scheme, ':') == NULL ? ":" : "");
    else
        text_put(ret, w->common.url);
    if (w->scheme == NULL && strchr(w->common.url, '?') != NULL)
        sep = '&';
    if (add_option(ret, &sep, "schema", w->schema) != 0 ||
        add_option(ret, &sep, "prefix", w->prefix) != 0 ||
        add_option(ret, &sep, "format", w->format) != 0)
        return STATUS_USAGE;
    text_add(ret, "", 1);
    return ret->failed ? say_system(ENOMEM, "no URL") : 0;
}

static void add_line(const char *line, void *user)
{
    text_format(user, "%s\n", line);
}

static int print_ddl(const struct wish *w, const char *url)
{
    struct text out = {0};
    hf_error err;
    int status = full_hand_over(url, false);
    if (status != 0)
        return status;
    if (hf_ddl(url, w->guard, add_line, &out, &err) != 0) {
        text_free(&out);
        return say_failure(&err);
    }
    return say_output(&out);
}

static int main_ddl(int argc, char **argv)
{
    struct wish w = {0};
    struct text url = {0};
    int got = read_wish(argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    if (w.common.json)
        return say_usage("ddl", "--json: this is SQL, and nothing else");
    int status = 0;
    if (w.common.url != NULL || w.common.url_file != NULL)
        status = common_settle(&w.common);
    if (status == 0)
        status = make_url(&w, &url);
    if (status == 0)
        status = print_ddl(&w, url.data);
    text_free(&url);
    return status;
}

const struct command command_ddl = {
    .name = "ddl",
    .summary = "print the tables that a database needs, or a guard",
    .help =
        "usage: holdfast ddl SCHEME [options]\n"
        "\n"
        "Print the SQL that makes what locks are stored in, with the rights "
        "that\n"
        "an account needs.  No database is reached.  Not needed where the "
        "account\n"
        "may create tables: then the first one who opens the store does.\n"
        "\n"
        "  holdfast ddl postgres | psql shop\n"
        "  holdfast ddl mysql --prefix shop_ | mariadb shop\n"
        "  holdfast ddl postgres --guard | psql shop\n"
        "\n"
        "Options:\n"
        "      --schema S    the schema (MariaDB: the database) of the tables\n"
        "      --prefix P    what the tables' names begin with (hf_)\n"
        "      --format F    the tables of another library's layout\n"
        "      --guard       instead: what refuses a write with an old token\n"
        "      --url URL     take scheme and options from a store's URL\n"
        "\n"
        "Status: 0; 64 and more as in holdfast(1).\n",
    .main = main_ddl};
