/* child.h - starting the command, and the terminal it may need. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "guardian.h"

struct child_plan {
    char *const *argv;
    char *const *env;
    int keep[2];                /* stay open over the exec; -1: none */
    const sigset_t *mask;       /* the signal mask it gets */
    bool ignores_child;         /* SIGCHLD was ignored when we came */
    int tty;                    /* becomes its foreground group; -1: none */
    struct guardian_page *page; /* learns of it */
};

/* Start it in a group of its own.  0 and *ret_pid, or an errno: of the exec,
 * or of what was needed before. */
int child_spawn(const struct child_plan *plan, pid_t *ret_pid);

/* environ with the four variables of `run`, in one piece to free; NULL: no
 * memory.  lost_fd is the number that the command will find. */
char **child_environment(const char *key, unsigned long long token, int lost_fd,
                         const char *url);

/* The terminal if this process is in its foreground and the command will want
 * it from the start; else -1. */
int terminal_at_start(void);
/* Make `group` the foreground group if we are it now; true: done. */
bool terminal_give(pid_t group);
/* Take it back if `group` still has it. */
void terminal_take(pid_t group);

#endif
