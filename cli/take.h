/* take.h - taking one lock for a command: options, waiting, telling. */
#ifndef CLI_TAKE_H
#define CLI_TAKE_H

#include "args.h"
#include "cli.h"

/* What `run` and `hold` want of a lock. */
struct take {
    struct common common;
    const char *key;
    int64_t wait_ms;
    hf_mode mode;
    uint32_t slots;
    int64_t at_most_ms, at_least_ms;
    int conflict_status;
    bool tells; /* say when it is held (-v, --json) */
};

struct taken {
    hf_session *session;
    hf_hold *hold;
    uint64_t token;
    int64_t lease_ms;   /* of the session */
    int64_t granted_ns; /* of CLOCK_BOOTTIME, or a little later */
};

/* Those options; with ARG_COMMON_OPTIONS they are all that `hold` has. */
#define ARG_TAKE_OPTIONS                                                       \
    {ARG_NONBLOCK, 'n', "nonblock", false}, {ARG_NONBLOCK, 0, "nb", false},    \
        {ARG_WAIT, 'w', "wait", true}, {ARG_WAIT, 0, "timeout", true},         \
        {ARG_SHARED, 's', "shared", false},                                    \
        {ARG_EXCLUSIVE, 'x', "exclusive", false},                              \
        {ARG_EXCLUSIVE, 'e', "exclusive", false},                              \
        {ARG_CONFLICT, 'E', "conflict-exit-code", true},                       \
        {ARG_LEASE, 0, "lease", true}, {ARG_AT_MOST, 0, "at-most", true},      \
        {ARG_AT_LEAST, 0, "at-least", true}, {ARG_SLOTS, 0, "slots", true},    \
    {                                                                          \
        ARG_OWNER, 0, "owner", true                                            \
    }

void take_init(struct take *t);
/* As common_take. */
int take_option(struct take *t, const struct args *a, int id,
                const char *value);
/* Do the options go together?  0, or the exit status (said). */
int take_check(const struct take *t, const struct args *a);

/* Open and lock.  True: granted.  False: nothing is left open, and *ret_status
 * is the exit status (0 is one: -E 0), or TAKE_CANCELLED: cancel_fd turned
 * readable. */
bool take_lock(const struct take *t, int cancel_fd, struct taken *ret,
               int *ret_status);
#define TAKE_CANCELLED (-1)

/* Release and close.  `status` unless the lock turns out to have been lost. */
int take_back(const struct take *t, struct taken *taken, int status);

#define TAKE_LEASE_DEFAULT_MS 30000

#endif
