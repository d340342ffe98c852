/* target.h - the stores that a suite is run against. */
#ifndef HF_TEST_TARGET_H
#define HF_TEST_TARGET_H

#include <stddef.h>

/* "mem", "mem-nomarks", "sqlite", "redis", ... (with-redis); NULL-ended. */
extern const char *const test_targets[];

/* The target chosen for this process: $HOLDFAST_TEST_TARGET, default "mem". */
const char *test_target(void);

/* The URL of a store that nobody has used before; "a" and "a" is the same
 * store, "a" and "b" are two.  prefix: "" or a shim such as "fault+"; query:
 * "" or "name=value&...".  Lives until the test ends. */
const char *test_url(const char *which, const char *prefix, const char *query);

#endif
