/* cmd_version.c - holdfast version. */
#include "simple.h"

static const struct arg_option options[] = {ARG_COMMON_OPTIONS, {0}};

static int main_version(int argc, char **argv)
{
    struct simple w;
    struct text out = {0};
    int got = simple_read(&command_version, options, argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    if (w.word != NULL)
        return say_usage("version", "'%s' is one word too many", w.word);
    if (w.common.json) {
        struct json j = {.out = &out};
        json_open(&j, NULL, '{');
        json_string(&j, "version", hf_version());
        json_close(&j, '}');
        text_put(&out, "\n");
    } else {
        text_format(&out, "holdfast %s\n", hf_version());
    }
    return say_output(&out);
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .help = "usage: holdfast version [--json]\n"
            "\n"
            "Print the version of the command and its library.\n",
    .main = main_version};
