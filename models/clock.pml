/* clock.pml - one session, two clocks, and a client that may stand still.
 *
 * The store counts a lease from when it executes a request, by its own clock;
 * the client from the instant that it read before it sent it, by its own, less
 * a guard.  The client's clock may fall behind by a tick in every TERM, which
 * is as much as the guard covers.  Its thread may stand still between any two
 * steps: after the clock was read, before the request goes out, before an
 * answer is looked at.  Renewals overtake each other, are late, are lost, and
 * may be under way when the deadline passes.  A rival waits, and is granted in
 * the very instant in which the store may do so.
 *
 * Proved for every order of events:
 *   one     never two who believe at one instant (G1)
 *   told    when the rival is granted the loss was told already: the descriptor
 *           is a timer of the kernel, which no thread of ours can delay (G5)
 *   final   what was told as lost is never said to be held again (G5)
 *
 * Each planted bug (VARIANT, see run) breaks one of them. */
#ifndef VARIANT
#define VARIANT 0
#endif
#define NO_GUARD (VARIANT == 1)   /* nothing is taken off for drift */
#define STOPS (VARIANT == 2)      /* a clock that a suspend stops */
#define STAMP_LATE (VARIANT == 3) /* the clock is read after the send */
#define ONE_STAMP (VARIANT == 4)  /* of the last send, whatever is answered */
#define TAKEN_BACK (VARIANT == 5) /* a late answer takes the loss back */
#define BY_THREAD (VARIANT == 6)  /* a thread of ours has to tell it */

#define TERM 4
#define GUARD 1
#define CALLS 3 /* the attach and two renewals */
#define LAST 10 /* the end of time */

mtype = { unsent, flies, done, over };

byte store_clock, our_clock; /* the first is the true time */
byte in_step = TERM;         /* ticks since ours fell behind */
/* the store */
bool known, rival;
byte ends;
/* the calls: when each was sent by our clock, what was left at its end */
mtype call[CALLS] = unsent;
byte sent[CALLS], left[CALLS];
/* what we believe */
bool has, lost;
byte until;

#define BELIEVES (has && !lost && our_clock < until)

active proctype world()
{
    do
    :: atomic { store_clock < LAST -> store_clock++;
           if
           :: our_clock++;
              if :: in_step < TERM -> in_step++ :: else fi
           :: in_step == TERM || STOPS -> in_step = 1
           fi;
           if /* the kernel's timer */
           :: has && !BY_THREAD && our_clock >= until -> lost = true
           :: else
           fi }
    :: d_step { known && ends <= store_clock -> known = false; rival = true;
           assert(!BELIEVES);      /* one */
           assert(!has || lost) }  /* told */
    :: store_clock == LAST -> break
    od
}

/* A request is executed, or lost; its answer may be lost, too. */
#define EXECUTE(i) \
    d_step { call[i] == flies -> call[i] = done; left[i] = 0; \
        if \
        :: i == 0 -> known = true; ends = store_clock + TERM; left[i] = TERM \
        :: i > 0 && known && ends > store_clock -> \
               ends = store_clock + TERM; left[i] = TERM \
        :: else \
        fi }
#define LOSE(i) \
    d_step { call[i] == flies || call[i] == done -> call[i] = over; \
        left[i] = 0 }

active proctype store()
{
end:
    do
    :: EXECUTE(0)
    :: EXECUTE(1)
    :: EXECUTE(2)
    :: LOSE(0)
    :: LOSE(1)
    :: LOSE(2)
    od
}

inline hear(i) {
    d_step { call[i] == done -> call[i] = over;
        told_lost = lost; stamp = sent[i];
        if :: ONE_STAMP -> stamp = sent[n - 1] :: else fi;
        deadline = stamp + left[i];
        if :: !NO_GUARD && left[i] > 0 -> deadline = deadline - GUARD
        :: else
        fi;
        if
        :: left[i] == 0 -> lost = true /* the store says so */
        :: left[i] > 0 && i == 0 -> has = true; until = deadline;
               if :: our_clock >= until -> lost = true :: else fi
        :: left[i] > 0 && i > 0 && (!lost || TAKEN_BACK) ->
               if :: deadline > until -> until = deadline :: else fi;
               if :: TAKEN_BACK -> lost = false :: else fi
        :: else
        fi;
        assert(!(BELIEVES && rival));     /* one */
        assert(!(BELIEVES && told_lost)); /* final */
        told_lost = false; stamp = 0; deadline = 0; left[i] = 0 }
}

#define MAY_SEND (n < CALLS && (n == 0 || (has && !lost)))

active proctype client()
{
    byte n, stamp, deadline;
    bool told_lost;

end:
    do
    :: MAY_SEND && !STAMP_LATE -> sent[n] = our_clock;
       d_step { call[n] = flies; n++ }
    :: MAY_SEND && STAMP_LATE -> call[n] = flies;
       d_step { sent[n] = our_clock; n++ }
    :: hear(0)
    :: hear(1)
    :: hear(2)
    :: d_step { BY_THREAD && has && !lost && our_clock >= until -> lost = true }
    od
}
