/* full.h - handing over to the executable that can load drivers. */
#ifndef CLI_FULL_H
#define CLI_FULL_H

#include <stdbool.h>

/* The words we were started with; set by main(). */
extern char **full_argv;

/* Does this URL (NULL: the default) need a driver that is not built in?  Then
 * become the executable that can load it; does not return unless that fails:
 * then the exit status (said).  0: go on here. */
int full_hand_over(const char *url, bool from_file);

/* The URL that was read from a file before the hand-over; NULL: none was.  A
 * file may be a pipe, which can be read once.  Call it once: nobody else finds
 * it in the environment after that. */
const char *full_handed_url(void);

#endif
