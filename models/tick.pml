/* tick.pml - a ZooKeeper session: what an answered sync proves.
 *
 * A member answers pings by itself, and reports to its leader twice a tick whom
 * it has heard; the leader lets a session end T after the last report.  A sync
 * goes through the member to the leader and back, in order with the reports,
 * but is no sign of life by itself.  The client pings every tick and believes
 * until
 *
 *     base + T - one tick
 *
 * where base is when the newest ping was sent that had been answered a tick
 * before an answered sync was sent (decision 0023).  Time is counted in half
 * ticks; drift is in clock.pml.  The member may stand still, and may be cut off
 * in its way up, at any moment; a second leader may begin, which counts T from
 * then, while the first one answers for up to two ticks more.
 *
 * With one sync that holds while the member stands still once in a lease and
 * what is sent to it while it runs arrives within half a tick.  With two such
 * stops, or late pings (LATE), between the last report and the cut lies more
 * than a tick.  So a renewal is two syncs one after the other (TWICE): when the
 * first is answered the report is on its way, and it is ahead of the second.
 *
 * Proved for every order of events:
 *   one     never two who believe at one instant (G1), which is also that the
 *           owner stops before the ensemble ends its session (G5)
 *
 * Each planted bug (VARIANT, see run) breaks it. */
#ifndef VARIANT
#define VARIANT 0
#endif
#define FROM_PING (VARIANT == 1)   /* a ping that is answered is enough */
#define FROM_SYNC (VARIANT == 2)   /* counted from the sync itself */
#define AT_ONCE (VARIANT == 3)     /* a ping counts without the tick between */
#define NO_TICK_OFF (VARIANT == 4) /* believed for the whole of T */
#define RARE_PINGS (VARIANT == 5)  /* every second tick */

#define TICK 2
#define T 6
#define OVERLAP (2 * TICK) /* of an old leader with a new one */
#ifndef LAST
#define LAST 11 /* the end of time */
#endif
#ifndef STOPS_MAX
#define STOPS_MAX 1
#endif
#define SYNCS_MAX 2
#ifdef LATE
#define ARRIVES true
#else
#define ARRIVES stopped
#endif

byte now;
/* the member */
bool heard, stopped, cut; /* heard: since its last report */
byte stops;
/* the leaders */
byte reported, began; /* when the session was last heard of; the second's */
bool second, rival;
/* the client: the ping that flies, the newest that was answered, and the newest
 * that was so a tick ago */
bool ping_flies;
byte ping_sent, pong_of, pong_at, ripe;
/* a sync that goes up, or comes down; what it will prove */
bool sync_up, sync_down;
byte proves, syncs, base, first; /* first: what the sync before it would */

#define UNTIL (base + T - (NO_TICK_OFF -> 0 : TICK))
#define BELIEVES (now < UNTIL)
#define PING_DUE (now - ping_sent >= (RARE_PINGS -> 2 * TICK : TICK))

inline report() {
    if
    :: heard && !cut -> reported = now
    :: else
    fi;
    heard = false
}

inline ripen() {
    if
    :: pong_of > ripe && (AT_ONCE || now >= pong_at + TICK) -> ripe = pong_of
    :: else
    fi
}

active proctype world()
{
    do
    /* The client does not forget a ping; the member does not forget a report
     * unless it stands still. */
    :: d_step { now < LAST &&
                (ping_flies -> ARRIVES : !PING_DUE) -> now++;
           ripen();
           if :: !stopped -> report() :: else fi }
    :: d_step { !cut -> cut = true }
    :: d_step { !stopped && stops < STOPS_MAX -> stopped = true; stops++ }
    :: d_step { stopped -> stopped = false }
    :: d_step { !second -> second = true; began = now }
    :: d_step { !rival && now >= (second -> began : reported) + T ->
           rival = true;
           assert(!BELIEVES) } /* one */
    :: now == LAST -> break
    od
}

active proctype member()
{
end:
    do
    :: d_step { ping_flies && !stopped -> ping_flies = false; heard = true;
           pong_of = ping_sent; pong_at = now; ripen();
           if :: FROM_PING -> base = ping_sent :: else fi;
           assert(!(BELIEVES && rival)) } /* one */
    /* To the leader: a session that is over is refused. */
    :: d_step { sync_up && !stopped && !cut && !rival &&
                (!second || now <= began + OVERLAP) ->
           sync_up = false; sync_down = true }
    /* Back: the leader's question for a report came before its answer. */
    :: d_step { sync_down && !stopped -> sync_down = false; report();
#ifdef TWICE
           if :: first > base -> base = first :: else fi;
           first = proves;
#else
           if :: proves > base -> base = proves :: else fi;
#endif
           proves = 0;
           assert(!(BELIEVES && rival)) } /* one */
    od
}

active proctype client()
{
end:
    do
    :: d_step { !ping_flies && PING_DUE -> ping_flies = true; ping_sent = now }
    :: d_step { !sync_up && !sync_down && syncs < SYNCS_MAX -> syncs++;
           sync_up = true;
           proves = (FROM_SYNC -> now : ripe) }
    od
}
