/* cmd_run.c - holdfast run: a command that runs only while a lock is held.
 *
 *     read the words -> guardian -> lock -> command -> release
 *
 * One loop waits for the command, for signals to pass on and for the loss of
 * the lock; it sleeps in one poll.  Whenever it wakes, it looks at the lease
 * first (mind.c): after a stop that lasted too long, the command is killed
 * before it gets the CONT.
 *
 * The lock is given back before we leave and after the command is reaped; if
 * we are killed, guardian and death signal end the command, and the life
 * descriptor that both inherit keeps the lock taken until they have. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "run.h"
#include "say.h"
#include "signals.h"

#define LEASE_LEAST_MS 2000

/* A run that is under way. */
struct watch {
    const struct run *run;
    struct signals *signals;
    struct mind mind;
    pid_t pid;
    bool has_tty; /* the terminal was handed over */
    bool stopped; /* the command is */
    bool ended;
};

void run_mind(const struct run *r, const struct taken *taken,
              struct guardian *g, int lost_pipe, struct mind *ret)
{
    int64_t now = boottime_ns();
    *ret = (struct mind){.hold = taken->hold,
                         .key = r->take.key,
                         .token = taken->token,
                         .lease_ms = taken->lease_ms,
                         .kill_after_ms = r->kill_after_ms,
                         .at_most_ms = r->take.at_most_ms,
                         .granted_ns = taken->granted_ns,
                         .guardian = g,
                         .lost_pipe = lost_pipe,
                         .pidfd = -1};
    atomic_store(&g->page->due_ns,
                 now + hf_hold_remaining_ms(taken->hold) * 1000000);
    guardian_arm(g, hf_session_life_fd(taken->session));
}

int run_refused(const struct run *r, int code)
{
    struct text line = {0};
    text_put(&line, "cannot run ");
    text_name(&line, r->argv[0], strlen(r->argv[0]));
    text_format(&line, ": %s", strerror(code));
    say_text(&line);
    return code == ENOENT || code == ENOTDIR ? STATUS_NOT_FOUND
                                             : STATUS_NOT_RUNNABLE;
}

/* The command was stopped by `number`.  The lock stays held and renewed. */
static void on_stop(struct watch *w, int number)
{
    if ((number == SIGTTIN || number == SIGTTOU) && terminal_give(w->pid)) {
        w->has_tty = true;
        mind_signal(&w->mind, SIGCONT);
        return;
    }
    w->stopped = true;
    if (!w->has_tty)
        return;
    terminal_take(w->pid);
    struct text line = {0};
    text_put(&line, "the command is stopped, ");
    text_name(&line, w->run->take.key, strlen(w->run->take.key));
    text_put(&line, " stays held; Ctrl-C ends it, Ctrl-Z again stops holdfast "
                    "too and lets the lease run out");
    say_text(&line);
}

static void on_child(struct watch *w)
{
    siginfo_t si = {0};
    if (waitid(P_PID, (id_t)w->pid, &si,
               WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
        si.si_pid == 0)
        return;
    if (si.si_code != CLD_STOPPED) {
        w->ended = true; /* and not reaped: its number is still its own */
        return;
    }
    waitid(P_PID, (id_t)w->pid, &si, WSTOPPED | WNOHANG);
    on_stop(w, si.si_status);
}

static void on_signal(struct watch *w, int number)
{
    switch (number) {
    case SIGCHLD:
        on_child(w);
        return;
    case SIGTSTP:
        if (w->stopped) {
            kill(getpid(), SIGSTOP);
            return;
        }
        break;
    case SIGCONT:
        if (w->has_tty)
            terminal_give(w->pid);
        w->stopped = false;
        break;
    default:
        break;
    }
    mind_signal(&w->mind, number);
    /* One that is stopped would not hear it. */
    if (w->stopped && sigismember(&w->signals->end, number) == 1) {
        mind_signal(&w->mind, SIGCONT);
        w->stopped = false;
    }
}

/* Until the command has ended; its exit status. */
static int watch_command(struct watch *w)
{
    int hold_fd = hf_hold_fd(w->mind.hold);
    while (!w->ended) {
        int timeout = mind_step(&w->mind);
        int number;
        while (!w->ended && (number = signals_next(w->signals)) != 0)
            on_signal(w, number);
        if (w->ended)
            break;
        /* From the loss on the descriptor stays readable: leave it out. */
        bool lost = w->mind.kill_at_ns != 0;
        struct pollfd p[2] = {{.fd = w->signals->fd, .events = POLLIN},
                              {.fd = lost ? -1 : hold_fd, .events = POLLIN}};
        poll(p, 2, timeout);
    }
    mind_end(&w->mind);
    if (w->has_tty)
        terminal_take(w->pid);
    guardian_stop(w->mind.guardian);
    int status = 0;
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (w->mind.warned)
        return STATUS_LOST;
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

static int run_command(const struct run *r, struct guardian *g,
                       struct signals *sig, const struct taken *taken)
{
    int lost[2], code;
    struct watch w = {.run = r, .signals = sig};
    code = pipe2(lost, O_CLOEXEC) != 0 ? errno : signals_watch(sig);
    if (code != 0)
        return say_system(code, "cannot prepare the command");
    run_mind(r, taken, g, lost[1], &w.mind);
    char **env = child_environment(r->take.key, taken->token, lost[0],
                                   common_url(&r->take.common, taken->session));
    struct child_plan plan = {
        .argv = r->argv,
        .env = env,
        .keep = {lost[0], r->close ? -1 : hf_session_life_fd(taken->session)},
        .mask = &sig->old,
        .ignores_child = sig->ignores_child,
        .tty = terminal_at_start(),
        .page = g->page};
    if (env == NULL)
        return say_system(ENOMEM, "cannot prepare the command");
    code = child_spawn(&plan, &w.pid);
    close(lost[0]);
    free(env);
    if (code == ETIME) {
        mind_too_late(&w.mind);
        return STATUS_LOST;
    }
    if (code != 0)
        return run_refused(r, code);
    w.mind.group = w.pid;
    w.has_tty = plan.tty >= 0;
    return watch_command(&w);
}

static int run_forked(const struct run *r)
{
    struct signals sig;
    struct guardian g;
    struct taken taken;
    int status = 0;
    int code = signals_begin(&sig);
    if (code == 0)
        code = guardian_start(&g, -1);
    if (code != 0)
        return say_system(code, "cannot start");
    bool held = take_lock(&r->take, sig.fd, &taken, &status);
    if (held)
        status = run_command(r, &g, &sig, &taken);
    guardian_stop(&g); /* its end overlaps with the release */
    if (held)
        status = take_back(&r->take, &taken, status);
    guardian_reap(&g);
    if (status == TAKE_CANCELLED)
        return signals_status(signals_next(&sig));
    return status == STATUS_SIGNAL + SIGINT ? signals_status(SIGINT) : status;
}

/* ---- The words -------------------------------------------------------- */

static const struct arg_option options[] = {
    ARG_COMMON_OPTIONS, ARG_TAKE_OPTIONS, ARG_RUN_OPTIONS, {0}};

static int read_option(struct run *r, const struct args *a, int id,
                       const char *value)
{
    switch (id) {
    case ARG_COMMAND:
        r->shell = value;
        return 1;
    case ARG_NO_FORK:
        r->no_fork = true;
        return 1;
    case ARG_CLOSE:
        r->close = true;
        return 1;
    case ARG_KILL_AFTER:
        return arg_span(a, "--kill-after", value, &r->kill_after_ms) ? 1
                                                                     : ARG_BAD;
    case ARG_UNLOCK:
        say_usage(a->command, "there is nothing to unlock: the lock ends with "
                              "the command; see 'holdfast break'");
        return ARG_BAD;
    default:
        return take_option(&r->take, a, id, value);
    }
}

/* What follows the key: [--] COMMAND ARGS, or -c STRING. */
static int read_command(struct run *r, const struct args *a)
{
    char **rest = a->argv + a->at;
    int count = a->argc - a->at;
    if (r->shell == NULL && count > 0 &&
        (strcmp(rest[0], "-c") == 0 || strcmp(rest[0], "--command") == 0)) {
        if (count != 2)
            return say_usage(a->command,
                             "'-c' takes one word: quote the whole command");
        r->shell = rest[1];
        count = 0;
    }
    if (r->shell != NULL) {
        const char *shell = getenv("SHELL");
        if (count > 0)
            return say_usage(a->command,
                             "'%s' is one command too many beside -c", rest[0]);
        r->shell_argv[0] =
            (char *)(shell != NULL && shell[0] != '\0' ? shell : "/bin/sh");
        r->shell_argv[1] = (char *)"-c";
        r->shell_argv[2] = (char *)r->shell;
        r->argv = r->shell_argv;
        return 0;
    }
    if (count > 0 && strcmp(rest[0], "--") == 0) {
        rest++;
        count--;
    } else if (count > 0 && rest[0][0] == '-') {
        return say_usage(a->command,
                         "option '%s' comes too late: options "
                         "stand before the key",
                         rest[0]);
    }
    if (count == 0 || rest[0][0] == '\0')
        return say_usage(a->command, "no command after the key '%s'",
                         r->take.key);
    r->argv = rest;
    return 0;
}

/* How long the command may take to end, given what the lease leaves after a
 * renewal and two attempts at it. */
static int check_times(struct run *r, const struct args *a)
{
    int64_t lease = r->take.common.lease_ms;
    if (lease == 0)
        lease = TAKE_LEASE_DEFAULT_MS;
    if (lease < LEASE_LEAST_MS)
        return say_usage(a->command, "--lease is shorter than 2 seconds: too "
                                     "short to stop a command in time");
    int64_t attempt = lease / 6 < 2000 ? lease / 6 : 2000;
    int64_t most = lease - stop_margin_ms(lease) - lease / 100 - 10 -
                   lease / 3 - 2 * attempt;
    if (r->kill_after_ms < 0) {
        r->kill_after_ms = lease / 6 < 5000 ? lease / 6 : 5000;
        if (r->take.at_most_ms > 0 && r->kill_after_ms > r->take.at_most_ms / 2)
            r->kill_after_ms = r->take.at_most_ms / 2;
    }
    if (r->kill_after_ms > most)
        return say_usage(a->command,
                         "--kill-after is too long for a lease of %lld.%03lld "
                         "s: at most %lld.%03lld s",
                         (long long)lease / 1000, (long long)lease % 1000,
                         (long long)most / 1000, (long long)most % 1000);
    if (r->take.at_most_ms > 0 && r->kill_after_ms >= r->take.at_most_ms)
        return say_usage(a->command, "--kill-after is not shorter than "
                                     "--at-most: nothing is left to run in");
    return 0;
}

static int read_words(struct run *r, struct args *a)
{
    const char *value = NULL;
    int id;
    while ((id = args_next(a, &value)) > 0) {
        if (id == ARG_HELP)
            return ARG_HELP;
        if (read_option(r, a, id, value) == ARG_BAD)
            return ARG_BAD;
    }
    if (id == ARG_BAD)
        return ARG_BAD;
    if (id == ARG_END) {
        say_usage(a->command, "no key; say what to lock, then the command");
        return ARG_BAD;
    }
    r->take.key = value;
    if (!arg_key(a, value) || read_command(r, a) != 0 ||
        take_check(&r->take, a) != 0 || check_times(r, a) != 0)
        return ARG_BAD;
    if (r->no_fork && r->close) {
        say_usage(a->command, "--no-fork and --close exclude each other");
        return ARG_BAD;
    }
    return 0;
}

static int main_run(int argc, char **argv)
{
    struct args a = {"run", options, argc, argv, 1, NULL, false};
    struct run r = {.kill_after_ms = -1};
    take_init(&r.take);
    r.take.tells = true;
    int got = read_words(&r, &a);
    if (got == ARG_HELP) {
        struct text out = {0};
        text_put(&out, command_run.help);
        return say_output(&out);
    }
    if (got == ARG_BAD)
        return STATUS_USAGE;
    int status = common_settle(&r.take.common);
    if (status != 0)
        return status;
    return r.no_fork ? run_in_place(&r) : run_forked(&r);
}

const struct command command_run = {
    .name = "run",
    .summary = "run a command while holding a lock",
    .help =
        "usage: holdfast run [options] KEY [--] COMMAND [ARGUMENTS]\n"
        "       holdfast run [options] KEY -c 'SHELL COMMAND'\n"
        "\n"
        "Run COMMAND while holding the lock KEY; wait for it if need be.\n"
        "\n"
        "  holdfast run nightly -- ./report.sh     one report at a time\n"
        "  holdfast run -n nightly -- ./report.sh  skip it if one runs\n"
        "  holdfast run -w 10 deploy -- make push  give up after 10 s\n"
        "  holdfast run -s db -- ./dump.sh         together with other -s\n"
        "  holdfast run --slots 3 gpu -- ./train   at most three at once\n"
        "  holdfast run k -c 'put --fence \"$HOLDFAST_TOKEN\" data'\n"
        "\n"
        "Options, before the key:\n"
        "  -n, --nonblock        fail rather than wait\n"
        "  -w, --wait SEC        wait at most this long (2.5, 500ms, 10m)\n"
        "  -E, --conflict-exit-code N  status when not granted (1)\n"
        "  -s, --shared          together with other shared holders\n"
        "  -x, -e, --exclusive   alone (the default)\n"
        "      --slots N         one of N places; all users say the same N\n"
        "  -c, --command STRING  run by the shell\n"
        "  -F, --no-fork         replace this process by the command\n"
        "  -o, --close           the command does not inherit the lock\n"
        "      --lease SEC       a crash goes unnoticed at most so long (30)\n"
        "      --at-most SEC     then the lock is lost and the command ended\n"
        "      --at-least SEC    keep it so long, even if the command is done\n"
        "      --kill-after SEC  from TERM to KILL when the lock is lost\n"
        "      --owner NAME      who you are, for 'holdfast ls'\n"
        "      --url URL         the store ($HOLDFAST_URL); --url-file FILE\n"
        "      --json            report as JSON lines on stderr\n"
        "  -q, --quiet           say nothing     -v, --verbose  say more\n"
        "\n"
        "The command finds HOLDFAST_KEY, HOLDFAST_TOKEN, HOLDFAST_URL and\n"
        "HOLDFAST_LOST_FD (reads as ended once it must stop).  Its status is\n"
        "passed on, 128+n for a signal.  Otherwise: 1 not granted, 64 usage,\n"
        "69 store unreachable, 76 lock lost, 77 not permitted, 78 wrong URL\n"
        "or store, 126 and 127 command not run.  See holdfast-run(1).\n",
    .main = main_run};
