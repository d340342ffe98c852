/* mind.c - stopping the command in time when its lock is lost.
 *
 * Answers: at this instant, may the command go on, must it be asked to stop,
 * or must it be stopped?  All by the hold's own clock, which reaches zero
 * before any other can be granted:
 *
 *     held ............... kill_after left ............. 0 (LOST)
 *           goes on              | TERM                  | KILL
 *
 * A hold that an operator broke is lost with no time left, but the library
 * keeps its place for a stop margin before it goes to the next.  So TERM now
 * and KILL kill_after later, or, where that is sooner, a fifth of the margin
 * before its end: we hear of the loss a little after the margin has begun.
 *
 * Each look also moves the guardian's due instant on.  Looks come at least
 * four times per lease, so that due is well ahead as long as we run, and the
 * guardian kills in our stead if we do not.  One that moves back must be told:
 * the guardian sleeps until the old one.
 *
 * Knows nothing of how the command is waited for. */
#include "mind.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "say.h"

bool mind_signal(const struct mind *m, int sig)
{
    if (m->group > 0)
        return kill(-m->group, sig) == 0;
    return syscall(SYS_pidfd_send_signal, m->pidfd, sig, NULL, 0) == 0;
}

/* holdfast: lost 'KEY' (token 17): WHY; DEED */
static void say_lost(const struct mind *m, int code, const char *why,
                     const char *deed)
{
    struct text line = {0};
    if (say_is_json()) {
        struct json j;
        event_begin(&j, &line, "lost");
        json_bytes(&j, "key", m->key, strlen(m->key));
        json_unsigned(&j, "token", m->token);
        json_string(&j, "reason", hf_error_name(code));
        json_string(&j, "text", why);
        json_string(&j, "action", deed);
        event_end(&j);
        return;
    }
    text_put(&line, "lost ");
    text_name(&line, m->key, strlen(m->key));
    text_format(&line, " (token %llu): %s; %s", (unsigned long long)m->token,
                why, deed);
    say_text(&line);
}

static const char *explain(const struct mind *m, int code)
{
    int64_t age_ms = (boottime_ns() - m->granted_ns) / 1000000;
    /* We noted the grant a little later than the library did. */
    if (code != HF_EFORCED && m->at_most_ms > 0 &&
        age_ms + 250 >= m->at_most_ms - m->kill_after_ms)
        return "--at-most is over";
    return code == 0 ? "the lease could not be renewed" : hf_strerror(code);
}

/* TERM, and CONT so that a stopped command hears it. */
static void warn(struct mind *m, int code)
{
    if (m->warned)
        return;
    m->warned = true;
    mind_signal(m, SIGTERM);
    mind_signal(m, SIGCONT);
    if (m->lost_pipe >= 0)
        close(m->lost_pipe);
    m->lost_pipe = -1;
    say_lost(m, code == 0 ? HF_EEXPIRED : code, explain(m, code),
             "sent TERM to the command");
}

static void strike(struct mind *m, int code)
{
    if (m->killed)
        return;
    m->killed = true;
    /* Kill first, talk later: stderr may block. */
    bool found = mind_signal(m, SIGKILL);
    m->warned = true;
    if (m->lost_pipe >= 0)
        close(m->lost_pipe);
    m->lost_pipe = -1;
    say_lost(m, code, explain(m, code),
             found ? "sent KILL to the command" : "the command has ended");
}

int64_t stop_margin_ms(int64_t lease_ms)
{
    return lease_ms / 10 > 250 ? lease_ms / 10 : 250;
}

/* Milliseconds for poll, from a positive number of them. */
static int as_timeout(int64_t ms)
{
    return ms > 1000000 ? 1000000 : (int)(ms < 0 ? 0 : ms);
}

static void set_due(const struct mind *m, int64_t due_ns)
{
    if (due_ns < atomic_exchange(&m->guardian->page->due_ns, due_ns))
        guardian_poke(m->guardian);
}

static int64_t time_to_stop_ns(const struct mind *m)
{
    int64_t kept_ms = stop_margin_ms(m->lease_ms);
    kept_ms -= kept_ms / 5;
    return (kept_ms < m->kill_after_ms ? kept_ms : m->kill_after_ms) * 1000000;
}

static int step_lost(struct mind *m, int code)
{
    int64_t now = boottime_ns();
    if (m->killed)
        return -1;
    if (m->kill_at_ns == 0) {
        m->kill_at_ns = code == HF_EFORCED ? now + time_to_stop_ns(m) : now;
        set_due(m, m->kill_at_ns);
    }
    if (now >= m->kill_at_ns) {
        strike(m, code);
        return -1;
    }
    warn(m, code);
    return as_timeout((m->kill_at_ns - now) / 1000000 + 1);
}

int mind_step(struct mind *m)
{
    /* The clock before what is left of it: due errs towards early. */
    int64_t now = boottime_ns();
    int code = hf_hold_check(m->hold, NULL);
    if (hf_error_class(code) == HF_CLASS_LOST || code == HF_ENOTHELD)
        return step_lost(m, code);
    int64_t left = hf_hold_remaining_ms(m->hold);
    if (left <= 0)
        return step_lost(m, HF_EEXPIRED); /* less than a millisecond is left */
    set_due(m, now + left * 1000000);
    if (left <= m->kill_after_ms) {
        warn(m, 0);
        return as_timeout(left);
    }
    int64_t next = left - m->kill_after_ms;
    return as_timeout(next < m->lease_ms / 4 ? next : m->lease_ms / 4);
}

void mind_too_late(struct mind *m)
{
    int code = hf_hold_check(m->hold, NULL);
    m->killed = m->warned = true;
    say_lost(m, code == 0 ? HF_EEXPIRED : code, explain(m, code),
             "the command was not started");
}

void mind_end(struct mind *m)
{
    if (m->warned)
        mind_signal(m, SIGKILL);
    if (atomic_load(&m->guardian->page->struck) && !m->killed) {
        int code = hf_hold_check(m->hold, NULL);
        m->killed = m->warned = true;
        say_lost(m, code == 0 ? HF_EEXPIRED : code, explain(m, code),
                 "the guardian sent KILL to the command");
    }
}
