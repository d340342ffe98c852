/* cmd_hold.c - holdfast hold: take a lock and keep it until told to let go.
 *
 * For scripts that cannot be wrapped, and for trying things out.  Says on
 * stdout when it holds, ends with stdin, INT or TERM, and leaves with
 * STATUS_LOST as soon as the lock is lost.  There is no command to stop, so
 * there is no guardian: who asked for the lock must look at our exit. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "say.h"
#include "signals.h"
#include "take.h"

static int print_held(const struct take *t, const struct taken *taken)
{
    struct text out = {0};
    if (t->common.json) {
        struct json j = {.out = &out};
        json_open(&j, NULL, '{');
        json_string(&j, "event", "held");
        json_bytes(&j, "key", t->key, strlen(t->key));
        json_unsigned(&j, "token", taken->token);
        json_close(&j, '}');
        text_put(&out, "\n");
    } else {
        text_put(&out, "held ");
        text_quote(&out, t->key, strlen(t->key));
        text_format(&out, " token %llu\n", (unsigned long long)taken->token);
    }
    return say_output(&out);
}

/* True once stdin has ended; what is read is of no interest. */
static bool is_input_over(void)
{
    char junk[512];
    ssize_t n = read(STDIN_FILENO, junk, sizeof(junk));
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* Wait for the end, whichever; 0, or STATUS_LOST (said). */
static int wait_for_end(const struct take *t, struct signals *sig,
                        const struct taken *taken)
{
    int hold_fd = hf_hold_fd(taken->hold);
    hf_error err;
    for (;;) {
        struct pollfd p[3] = {{.fd = sig->fd, .events = POLLIN},
                              {.fd = hold_fd, .events = POLLIN},
                              {.fd = STDIN_FILENO, .events = POLLIN}};
        poll(p, 3, -1);
        int code = hf_hold_check(taken->hold, &err);
        if (hf_error_class(code) == HF_CLASS_LOST) {
            struct text line = {0};
            text_put(&line, "lost ");
            text_name(&line, t->key, strlen(t->key));
            text_format(&line, " (token %llu): %s",
                        (unsigned long long)taken->token, hf_strerror(code));
            say_text(&line);
            return STATUS_LOST;
        }
        if (p[0].revents != 0 || (p[2].revents != 0 && is_input_over()))
            return 0;
    }
}

static int hold_it(const struct take *t)
{
    struct signals sig;
    struct taken taken;
    int status = 0;
    int code = signals_begin(&sig);
    if (code != 0)
        return say_system(code, "cannot start");
    if (!take_lock(t, sig.fd, &taken, &status))
        return status == TAKE_CANCELLED ? signals_status(signals_next(&sig))
                                        : status;
    status = print_held(t, &taken);
    if (status == 0)
        status = wait_for_end(t, &sig, &taken);
    return take_back(t, &taken, status);
}

static const struct arg_option options[] = {
    ARG_COMMON_OPTIONS, ARG_TAKE_OPTIONS, {0}};

static int main_hold(int argc, char **argv)
{
    struct args a = {"hold", options, argc, argv, 1, NULL, false};
    struct take t;
    const char *value = NULL;
    int id;
    take_init(&t);
    while ((id = args_next(&a, &value)) != ARG_END) {
        if (id == ARG_BAD)
            return STATUS_USAGE;
        if (id == ARG_HELP) {
            struct text out = {0};
            text_put(&out, command_hold.help);
            return say_output(&out);
        }
        if (id == ARG_WORD && t.key != NULL)
            return say_usage("hold",
                             "'%s' is one word too many; to run a "
                             "command use 'holdfast run'",
                             value);
        if (id == ARG_WORD)
            t.key = value;
        else if (take_option(&t, &a, id, value) == ARG_BAD)
            return STATUS_USAGE;
    }
    if (t.key == NULL)
        return say_usage("hold", "no key; say what to lock");
    if (!arg_key(&a, t.key) || take_check(&t, &a) != 0)
        return STATUS_USAGE;
    int status = common_settle(&t.common);
    return status != 0 ? status : hold_it(&t);
}

const struct command command_hold = {
    .name = "hold",
    .summary = "hold a lock until stdin ends",
    .help =
        "usage: holdfast hold [options] KEY\n"
        "\n"
        "Take KEY, say `held KEY token N`, and hold it until stdin ends or "
        "INT\n"
        "or TERM comes.\n"
        "\n"
        "  holdfast hold deploy               until Ctrl-D or Ctrl-C\n"
        "  sleep 60 | holdfast hold deploy    for a minute\n"
        "\n"
        "  coproc holdfast hold deploy        in a bash script:\n"
        "  read -r _ _ _ token <&\"${COPROC[0]}\"\n"
        "  ...                                work, with $token\n"
        "  exec {COPROC[1]}>&-                let go\n"
        "\n"
        "Options:\n"
        "  -n, --nonblock        fail rather than wait\n"
        "  -w, --wait SEC        wait at most this long\n"
        "  -E, --conflict-exit-code N  status when not granted (1)\n"
        "  -s, --shared          together with other shared holders\n"
        "      --slots N         one of N places\n"
        "      --lease SEC --at-most SEC --at-least SEC --owner NAME\n"
        "      --json            {\"event\": \"held\", ...}\n"
        "      --url URL         the store ($HOLDFAST_URL); --url-file FILE\n"
        "  -q, --quiet           no messages     -v, --verbose  say more\n"
        "\n"
        "Status: 0 released, 1 not granted, 76 lost; others as for 'run'.\n",
    .main = main_hold};
