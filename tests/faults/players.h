/* players.h - processes that hold and wait, and the wires that they hang on.
 *
 * A scene has at most four players, each a process of its own with a session of
 * its own.  They are cast (forked) before the curtain rises, since a process
 * with threads is not forked; then each goes when it is told to, waits for the
 * one lock "k", and says in shared memory what happened to it and when, by
 * CLOCK_BOOTTIME, which all processes read alike.
 *
 * A player that is to be cut off reaches its store through links of its own.  A
 * file has no connection: what comes nearest is a process that stands still. */
#ifndef HOLDFAST_TESTS_PLAYERS_H
#define HOLDFAST_TESTS_PLAYERS_H

#include "../behaviour/support.h"

enum player_step { IDLE, OPEN, GRANTED, RELEASED };
enum { PLAYER_LINKS = 12 };
enum player_cue { STAY, GO, RELEASE, END };

typedef struct player {
    const char *name;
    pid_t pid;
    /* What the test says, before GO. */
    int links; /* of its own: where it thinks it goes, goes, their numbers */
    int ports[PLAYER_LINKS], detours[PLAYER_LINKS], numbers[PLAYER_LINKS];
    int64_t lease_ms;
    bool tries;           /* before it waits */
    struct player *rival; /* from its grant on ours must be lost */
    atomic_int cue;
    atomic_bool asks; /* asks its store again and again while it holds */
    /* What it says: what stands before the step was written before it. */
    atomic_int step;
    int try_code, release_code;
    int64_t tried_ms, granted_ms, released_ms;
    uint64_t token;
    /* And goes on saying while it holds; 0: not yet. */
    atomic_llong doubt_ms, relief_ms, lost_ms;
    atomic_llong deadline_ms; /* its own, by its own arithmetic */
    atomic_int rounds;        /* looks at its hold */
    atomic_int asked_well;    /* renewals that were answered 0 */
    atomic_int wrong_checks;  /* "held" although the rival had it */
} player;

/* Fork one; before the curtain. */
player *player_cast(const char *name);
/* All are cast: links and a session of the test's own can be had. */
hf_session *curtain_rise(void);
/* All have ended. */
void curtain_fall(hf_session *judge);

/* Open the store, through links if it is to be cut off, and take "k". */
void player_go(player *p, int64_t lease_ms, bool linked);
void player_await(player *p, enum player_step step);
/* Give it back, and until it has; the instant before it was told to. */
int64_t player_release(player *p);
void player_end(player *p);     /* close, exit */
int64_t player_kill(player *p); /* KILL; when it was gone */

/* Off: all connections end, and new ones, too; when that was done. */
int64_t player_cut(player *p);
int64_t player_mend(player *p);
int player_wires(player *p); /* its connections now */
/* Has this store connections that can be cut? */
bool store_has_wires(void);

/* One number of the table, e.g. "next": ms; see scripts/five_table.py. */
void note_time(const char *what, int64_t ms);

#endif
