/* mind.h - stopping the command in time when its lock is lost. */
#ifndef CLI_MIND_H
#define CLI_MIND_H

#include <holdfast/holdfast.h>

#include "guardian.h"

struct mind {
    hf_hold *hold;
    const char *key;
    uint64_t token;
    int64_t lease_ms, kill_after_ms, at_most_ms;
    int64_t granted_ns;
    struct guardian *guardian;
    int lost_pipe; /* closed when the command must stop; -1: none, or done */
    pid_t group;   /* whom to signal; 0: pidfd */
    int pidfd;
    /* What was done: */
    bool warned;        /* TERM was sent */
    bool killed;        /* KILL was sent */
    int64_t kill_at_ns; /* when it must be; 0: not set */
};

/* What the library leaves its user to stop in: between a loss that it tells
 * and the lock being another's. */
int64_t stop_margin_ms(int64_t lease_ms);

/* Look at the clock and act on it.  Returns in how many milliseconds to look
 * again at the latest; -1: no need.  Call it first after every sleep. */
int mind_step(struct mind *m);

/* To all of the command; false: there is nobody. */
bool mind_signal(const struct mind *m, int sig);

/* The lock was lost before the command could begin: say so. */
void mind_too_late(struct mind *m);

/* The command has ended: if it had to, end what it left behind too, and say
 * what the guardian did.  Before it is reaped. */
void mind_end(struct mind *m);

#endif
