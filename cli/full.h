/* full.h - handing over to the executable that can load drivers. */
#ifndef CLI_FULL_H
#define CLI_FULL_H

/* The words we were started with; set by main(). */
extern char **full_argv;

/* Does this URL (NULL: the default) need a driver that is not built in?  Then
 * become the executable that can load it; does not return unless that fails:
 * then the exit status (said).  0: go on here. */
int full_hand_over(const char *url);

#endif
