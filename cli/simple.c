/* simple.c - commands that open a store, ask it something and print.
 *
 * What ls, show, break, doctor and version share: their options may stand
 * before or behind the one word they take. */
#include "simple.h"

int simple_read(const struct command *command, const struct arg_option *options,
                int argc, char **argv, struct simple *ret)
{
    struct args a = {command->name, options, argc, argv, 1, NULL, false};
    const char *value = NULL;
    int id;
    *ret = (struct simple){0};
    while ((id = args_next(&a, &value)) != ARG_END) {
        if (id == ARG_BAD)
            return ARG_BAD;
        if (id == ARG_HELP) {
            struct text out = {0};
            text_put(&out, command->help);
            return say_output(&out) == 0 ? ARG_HELP : ARG_BAD;
        }
        if (id == ARG_WORD && ret->word != NULL) {
            say_usage(a.command, "'%s' is one word too many", value);
            return ARG_BAD;
        }
        if (id == ARG_WORD)
            ret->word = value;
        else if (id == ARG_NOW)
            ret->now = true;
        else if (id == ARG_TOKEN) {
            if (!arg_number(&a, "--token", value, 1, UINT64_MAX, &ret->token))
                return ARG_BAD;
        } else if (common_take(&ret->common, &a, id, value) == ARG_BAD)
            return ARG_BAD;
    }
    say_log();
    return 0;
}

int simple_status(int got)
{
    return got == ARG_HELP ? STATUS_OK : STATUS_USAGE;
}

int simple_open(struct simple *w, hf_session **ret)
{
    int status = common_settle(&w->common);
    return status != 0 ? status : common_open(&w->common, ret);
}

int simple_open_key(struct simple *w, const char *command, const char *wish,
                    hf_session **ret)
{
    const struct args a = {.command = command};
    if (w->word == NULL)
        return say_usage(command, "no key; say which lock to %s", wish);
    return arg_key(&a, w->word) ? simple_open(w, ret) : STATUS_USAGE;
}
