/* layout.h - how a lock is written on each of the servers.
 *
 * The key is the lock's name, its value the owner: the layout of the published
 * algorithm and of all libraries that follow it, so that they and we exclude
 * each other.  What is ours alone stands beside it: the number that the server
 * counts this lock with, and for a while the tombs of places that were left. */
#ifndef HF_DRIVERS_REDLOCK_LAYOUT_H
#define HF_DRIVERS_REDLOCK_LAYOUT_H

#include "../redis/format.h"

/* Beside the verbs J, L, X and D of format.h: raise the number of what is mine
 * to what stands in the place of the milliseconds; take a vote back, which
 * nobody is told of. */
#define LAYOUT_RAISE 'W'
#define LAYOUT_TAKE_BACK 'U'

/* Numbers that a vote owns: so many sections of one process may follow each
 * other on it without asking. */
#define LAYOUT_RUN 16

extern const format_kind redlock_kind;

/* The script whose digest this command begins with; *ret_rest: where the words
 * behind the digest begin.  NULL: it is no script. */
const redis_script *layout_script(const char *bytes, size_t len,
                                  size_t *ret_rest);

#endif
