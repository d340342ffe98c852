/* child.h - programs that a test starts, and the ports they listen on. */
#ifndef HF_TEST_CHILD_H
#define HF_TEST_CHILD_H

#include <sys/types.h>

/* A loopback port that was free a moment ago. */
int child_port(void);
/* Runs words (NULL-ended), its output behind what `log` has; it is killed with
 * the thread that calls this. */
pid_t child_start(char **words, const char *log);
/* Its status if it has ended, else -1. */
int child_ended(pid_t pid);
/* Signal it (a stopped one goes on first), KILL after five seconds; gone when
 * this returns. */
void child_end(pid_t pid, int signal);
/* Runs it to its end; the status, or -1 when it was killed after so long. */
int child_run(char **words, const char *log, int ms);
/* The file on stderr, for a test that fails. */
void child_show(const char *path);

#endif
