/* info.h - what a Redis server says about itself: INFO, ROLE, TIME.
 *
 * Pure; for the handshake, and for doctor of both drivers that speak to such
 * servers.  What does not fit is answered as not said. */
#ifndef HF_DRIVERS_REDIS_INFO_H
#define HF_DRIVERS_REDIS_INFO_H

#include "finder.h"

/* The value of `name` in INFO's lines, cut to its room; false: it has none, and
 * ret is "". */
bool redis_info_text(const resp *info, const char *name, char *ret, size_t cap);
/* The same as a number that is not negative; -1: it is none. */
int64_t redis_info_number(const resp *info, const char *name);
/* "7.0.15" is 70015; 0: that is no version. */
int redis_info_version(const char *text);
/* The reply of TIME in microseconds; false: it is no such reply. */
bool redis_read_time(const resp *reply, int64_t *ret_us);

/* What a handshake learns; false: INFO names no version. */
bool redis_met_info(redis_met *met, const resp *info);
void redis_met_role(redis_met *met, const resp *role);

#endif
