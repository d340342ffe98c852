/* guardian.h - the process that ends the command if `holdfast` cannot. */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A page that both processes, and the command until its exec, have mapped. */
struct guardian_page {
    atomic_int target;      /* KILL this: -group, 1: the pidfd; 0: nothing */
    _Atomic int64_t due_ns; /* at this CLOCK_BOOTTIME instant; 0: never */
    atomic_bool struck;     /* it did, because that instant came */
    atomic_int exec_code;   /* the errno of a failed exec */
};

struct guardian {
    pid_t pid; /* 0: none */
    int sock;
    bool stopped;
    struct guardian_page *page;
};

/* Fork it; before threads exist.  pidfd >= 0: KILL that process instead of a
 * group.  0, or an errno. */
int guardian_start(struct guardian *g, int pidfd);

/* Arm it: from now on due_ns counts.  life_fd (or -1) stays open there until
 * the command is gone. */
void guardian_arm(struct guardian *g, int life_fd);

/* due_ns is earlier than it was: look at it now. */
void guardian_poke(const struct guardian *g);

/* The target is gone: call before its process is reaped. */
void guardian_stop(struct guardian *g);
/* After stop: no zombie is left. */
void guardian_reap(struct guardian *g);

int64_t boottime_ns(void);

#endif
