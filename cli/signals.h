/* signals.h - signals as something to read, for `run` and `hold`. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    sigset_t old; /* the mask we came with */
    sigset_t end; /* those that end us: INT TERM HUP QUIT, unless ignored */
    int fd;       /* signalfd; readable when one is pending */
    bool ignores_child; /* SIGCHLD was ignored when we came */
};

/* Block the ending signals and make fd readable by them.  0, or an errno. */
int signals_begin(struct signals *s);
/* From now on also those that are passed on, and SIGCHLD. */
int signals_watch(struct signals *s);
/* The next pending one; 0: none. */
int signals_next(struct signals *s);
/* The exit status of one that a signal ends.  With a terminal, INT is died of
 * instead: a shell's loop ends only then. */
int signals_status(int number);

#endif
