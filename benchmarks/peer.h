/* peer.h - a process that locks on command, ours or another library's.
 *
 * It takes one key and gives it back as it is told by lines in its input, and
 * answers with the instant on the monotonic clock that all processes share: of
 * the return of the lock, of the call of the release.  So the pipe between it
 * and us is in no measured time, and programs in other languages are measured
 * like our own:
 *
 *     take           answered `held NS`
 *     give           answered `given NS`
 *     run END FILE   four threads take the key again and again until END (NS)
 *                    and write `WORKER ASKED GOT GAVE` lines; then `done 0`
 *
 * A program says `ready 0` first. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench.h"

struct peer;

/* On the core that is said; a program is looked for in PATH. */
struct peer *peer_program(const char *const argv[], int core);
struct peer *peer_side(const struct side *side, const char *where, int core);
void peer_end(struct peer *p);

/* Wait for `word`; the instant that came with it. */
int64_t peer_hear(struct peer *p, const char *word);
void peer_tell(struct peer *p, const char *line);

/* Two peers hand the key to each other `turns` times, the next one asleep when
 * it is given back: the median from the release to the lock. */
double peer_turns_us(struct peer *const p[2], int turns, int hold_us,
                     int jitter_us);

/* Both at once on one key; `dir` is for their logs. */
struct contest peer_contest(struct peer *const p[2], const char *dir,
                            double seconds);

#endif
