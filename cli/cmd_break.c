/* cmd_break.c - holdfast break: take a lock away from who holds it.
 *
 * The careful way marks the hold: its owner is told and the lock moves on when
 * it has left, a lease later at the latest.  --now does not wait, and then only
 * the token keeps two from acting; so it must be asked for by name. */
#include <string.h>

#include "simple.h"

static int print_broken(const struct simple *w, uint32_t caps, uint32_t broken)
{
    struct text out = {0};
    if (w->common.json) {
        struct json j = {.out = &out};
        json_open(&j, NULL, '{');
        json_bytes(&j, "key", w->word, strlen(w->word));
        json_unsigned(&j, "broken", broken);
        json_bool(&j, "now", w->now);
        json_close(&j, '}');
        text_put(&out, "\n");
    } else if (!w->common.quiet) {
        if (broken == 0 && w->token != 0)
            text_format(&out, "no hold with token %llu of ",
                        (unsigned long long)w->token);
        else if (broken == 0)
            text_put(&out, "nobody holds ");
        else
            text_format(&out, "broke %u hold%s of ", broken,
                        broken == 1 ? "" : "s");
        text_name(&out, w->word, strlen(w->word));
        if (broken > 0)
            text_put(&out, !w->now ? "; its holder hears of it within a third "
                                     "of its lease, and it is passed on when "
                                     "that has left, a lease later at the "
                                     "latest"
                           : caps & HF_CAP_TOKEN
                               ? "; it is passed on now, and only the token "
                                 "stops its former holder"
                               : "; it is passed on now, and nothing stops its "
                                 "former holder");
        text_put(&out, "\n");
    }
    int status = say_output(&out);
    return status == 0 && broken == 0 ? STATUS_BUSY : status;
}

static const struct arg_option options[] = {
    ARG_COMMON_OPTIONS, ARG_BREAK_OPTIONS, {0}};

static int main_break(int argc, char **argv)
{
    struct simple w;
    hf_session *s;
    hf_error err;
    uint32_t broken = 0;
    int got = simple_read(&command_break, options, argc, argv, &w);
    if (got != 0)
        return simple_status(got);
    int status = simple_open_key(&w, "break", "break", &s);
    if (status != 0)
        return status;
    hf_break_options opt = {HF_BREAK_OPTIONS, .token = w.token, .now = w.now};
    if (hf_break(s, w.word, &opt, &broken, &err) != 0)
        status = say_failure(&err);
    else
        status = print_broken(&w, hf_session_caps(s), broken);
    hf_close(s);
    return status;
}

const struct command command_break = {
    .name = "break",
    .summary = "take a lock away from who holds it",
    .help =
        "usage: holdfast break [options] KEY\n"
        "\n"
        "Take KEY away from its holder.  The holder is told (a command under\n"
        "'holdfast run' gets TERM, then KILL), and the next in line gets the\n"
        "lock when it has left, a lease later at the latest.\n"
        "\n"
        "  holdfast show nightly              who is it, and which token?\n"
        "  holdfast break nightly             every holder\n"
        "  holdfast break --token 17 nightly  only if it is still that one\n"
        "  holdfast break --now nightly       pass it on at once: the former\n"
        "                                     holder may still act, and only\n"
        "                                     the token stops it\n"
        "\n"
        "Options:\n"
        "      --token N   only the hold with this token\n"
        "      --now       do not wait for the holder\n"
        "      --json      one object: key, broken, now\n"
        "      --url URL   the store ($HOLDFAST_URL); --url-file FILE\n"
        "  -q, --quiet     say nothing     -v, --verbose  say more\n"
        "\n"
        "Status: 0 broken, 1 nobody held it.\n",
    .main = main_break};
