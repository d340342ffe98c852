/* cmd_doctor.c - holdfast doctor: is this store fit to hold locks?
 *
 * Prints what the driver finds, one line each with its cure.  The exit status
 * is the worst of them, as monitoring systems expect it: 0, 1 for a warning,
 * 2 for a failure. */
#include <string.h>

#include "simple.h"

struct findings {
    struct text out;
    struct json json;
    bool as_json, only_bad;
    hf_level worst;
};

static void add_finding(hf_level level, const char *name, const char *text,
                        void *user)
{
    static const char *const words[] = {"ok", "warn", "FAIL"};
    struct findings *f = user;
    if (level > f->worst)
        f->worst = level;
    if (f->as_json) {
        text_put(&f->out, "\n");
        json_open(&f->json, NULL, '{');
        json_string(&f->json, "level", words[level]);
        json_string(&f->json, "name", name);
        json_string(&f->json, "text", text);
        json_close(&f->json, '}');
    } else if (!f->only_bad || level != HF_FINE) {
        text_format(&f->out, "%-4s  %-12s  %s\n", words[level], name, text);
    }
}

static int examine(const struct simple *w, hf_session *s)
{
    hf_error err;
    struct findings f = {.as_json = w->common.json,
                         .only_bad = w->common.quiet};
    f.json.out = &f.out;
    if (f.as_json) {
        json_open(&f.json, NULL, '{');
        json_string(&f.json, "url", hf_session_url(s));
        json_open(&f.json, "findings", '[');
    }
    if (hf_doctor(s, add_finding, &f, &err) != 0) {
        text_free(&f.out);
        return say_failure(&err);
    }
    if (f.as_json) {
        text_put(&f.out, "\n");
        json_close(&f.json, ']');
        json_string(&f.json, "worst",
                    f.worst == HF_FAIL   ? "FAIL"
                    : f.worst == HF_WARN ? "warn"
                                         : "ok");
        json_close(&f.json, '}');
        text_put(&f.out, "\n");
    }
    int status = say_output(&f.out);
    return status != 0 ? status : (int)f.worst;
}

static const struct arg_option options[] = {ARG_COMMON_OPTIONS, {0}};

static int main_doctor(int argc, char **argv)
{
    struct simple w;
    hf_session *s;
    int got = simple_read(&command_doctor, options, argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    if (w.word != NULL)
        return say_usage("doctor", "'%s' is one word too many", w.word);
    int status = simple_open(&w, &s);
    if (status != 0)
        return status;
    status = examine(&w, s);
    hf_close(s);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "is this store fit to hold locks?",
    .help =
        "usage: holdfast doctor [options]\n"
        "\n"
        "Examine the store: is it set up so that a lock is safe there?  One "
        "line\n"
        "per finding, `ok`, `warn` or `FAIL`, with the cure.\n"
        "\n"
        "  holdfast doctor\n"
        "  holdfast doctor --url sqlite:/var/lib/app/locks.db\n"
        "  holdfast doctor --quiet || mail -s 'locks' ops\n"
        "\n"
        "Options:\n"
        "      --json      one object: url, findings, worst\n"
        "      --url URL   the store ($HOLDFAST_URL); --url-file FILE\n"
        "  -q, --quiet     only what is not ok     -v, --verbose  say more\n"
        "\n"
        "Status: 0 all is well, 1 a warning, 2 a failure; above 60 the store\n"
        "could not be examined.\n",
    .main = main_doctor};
