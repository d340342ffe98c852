/* lost.c - being told that a hold is gone.
 *
 * Three ways, for three kinds of program: a callback on a thread of the
 * session, a descriptor for a poll loop, and a check before each step of the
 * work.  Here an operator takes the lock away with hf_break. */
#include <holdfast/holdfast.h>
#include <poll.h>
#include <stdio.h>

#define KEY "/nightly/report"

static void tell_change(hf_hold *hold, hf_state state, int reason, void *user)
{
    (void)hold;
    if (state == HF_LOST)
        printf("%s: lost, %s\n", (const char *)user, hf_strerror(reason));
    else if (state == HF_DOUBTFUL)
        printf("%s: in doubt, %s\n", (const char *)user, hf_strerror(reason));
    fflush(stdout);
}

int main(void)
{
    char name[] = "the report";
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 1000,
                           .on_change = tell_change, .user = name};
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    struct pollfd gone = {.events = POLLIN};
    hf_session *s, *operator_;
    hf_hold *hold;
    hf_error err;
    int rc;

    if (hf_open(&s, NULL, NULL, &err) != 0 ||
        hf_open(&operator_, NULL, NULL, &err) != 0 ||
        hf_lock(s, KEY, &opt, &hold, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    gone.fd = hf_hold_fd(hold);
    printf("held: %s\n", hf_hold_check(hold, &err) == 0 ? "yes" : "no");
    fflush(stdout);

    if (hf_break(operator_, KEY, &now, NULL, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    /* A real program polls this beside its other descriptors. */
    if (poll(&gone, 1, 30000) == 1)
        puts("the descriptor is readable: stop touching the report");
    fflush(stdout);
    rc = hf_hold_check(hold, &err);
    printf("held: no, %s\n", hf_error_name(rc));
    hf_release(hold, NULL);
    hf_close(s); /* the callback has been called when this returns */
    hf_close(operator_);
    return rc == HF_EFORCED ? 0 : 1;
}
