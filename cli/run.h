/* run.h - what the two ways of `holdfast run` share. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "mind.h"
#include "take.h"

struct run {
    struct take take;
    int64_t kill_after_ms; /* -1: the default */
    bool no_fork, close;
    const char *shell; /* -c */
    char **argv;       /* the command */
    char *shell_argv[4];
};

/* Prepare minding what was taken; the command does not run yet. */
void run_mind(const struct run *r, const struct taken *taken,
              struct guardian *g, int lost_pipe, struct mind *ret);
/* The exec failed with `code`: say so; the exit status. */
int run_refused(const struct run *r, int code);

/* In place: the command replaces this process, a keeper holds the lock. */
int run_in_place(const struct run *r);

#endif
