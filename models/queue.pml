/* queue.pml - a queue whose releaser grants to the next, and sessions that die.
 *
 * Three sessions, one place each in one queue.  Whoever joins, leaves or cuts
 * the dead out marks the first who is left as granted, if nobody is, and sends
 * it a word, which may be lost.  Sessions fall silent (crashed, stopped, cut
 * off) at any moment; a stopped one may be heard of again.  Time is only an
 * order of events: a session's own deadline passes before the store may declare
 * it dead, which lease.pml proves.
 *
 * Joins and leaves are calls.  Each may be executed while its reply is lost, or
 * be on its way for as long as it likes while its caller believes it lost; the
 * caller asks again under the same id, or gives up and leaves.  So the store
 * executes a join twice, a leave twice, a join behind the leave of its id
 * (which left a tomb there), and the join of a session that is dead by then.
 *
 * A session is dead when its row is gone, in one step; only then are its
 * entries cut, in another, and only then is somebody granted.
 *
 * Proved for every order of events:
 *   one     never two who believe at one instant (G1)
 *   own     who begins to believe is granted in the store (G6)
 *   order   granted is who came first of those that are left (G3).  Who came
 *           when is written down apart from the line, at the first join of a
 *           session that the store executes
 *   moves   when nothing can happen any more, everybody who lives was served
 *           (G4)
 *
 * Each planted bug (VARIANT, see run) breaks the one that is named there. */
#ifndef VARIANT
#define VARIANT 0
#endif
#define CUT_FIRST (VARIANT == 1)   /* entries go before the session is dead */
#define BLIND_PUSH (VARIANT == 2)  /* a word is believed by the dead */
#define NO_RECHECK (VARIANT == 3)  /* a lost word is never made up for */
#define LAST_FIRST (VARIANT == 4)  /* the last one in line is granted */
#define NO_KEEPER (VARIANT == 5)   /* nobody cuts the dead out */
#define NEW_ID (VARIANT == 6)      /* a join is repeated under another id */
#define LEAVE_HEAD (VARIANT == 7)  /* a leave removes who is granted, anybody */
#define NO_TOMB (VARIANT == 8)     /* a join behind its leave is executed */
#define MOVES_BACK (VARIANT == 9)  /* a repeated join loses its place */
#define DEAD_JOIN (VARIANT == 10)  /* the join of a dead session is executed */

#define N 3
#ifndef LOSSES
#define LOSSES 1 /* replies lost and requests late, of all calls together */
#endif
#ifndef FALLS
#define FALLS 2 /* how often somebody falls silent */
#endif
#define ROOM (N + LOSSES)
#define OWNER(id) (((id) - 1) % N)

mtype = { asks, waits, holds, leaves, served, lost };

mtype state[N] = asks;
byte id[N];          /* of the join: the session's number from 1, + N: anew */
bool row[N];         /* the store knows the session */
bool silent[N];      /* its own deadline has passed: it believes nothing */
bool crashed[N];
byte told[N];        /* a word for this id is under way */
byte late_join[N];   /* a join of this id is under way, nobody waits for it */
byte late_leave[N];
bool tomb[N];        /* its id has left */
byte line[ROOM];     /* ids in their order; 0: nobody */
byte granted;        /* of them, 0: nobody */
byte came[N];        /* as which of those who are there, from 1 on;
                        0: it is not there */
byte losses, falls;  /* so far */
hidden byte k, gone, place;

#define BELIEVES(i) (state[i] == holds && !silent[i])
#define ONE \
    (!(BELIEVES(0) && BELIEVES(1)) && !(BELIEVES(0) && BELIEVES(2)) && \
     !(BELIEVES(1) && BELIEVES(2)))
#define ENDED(i) (crashed[i] || state[i] == served || state[i] == lost)
#define BEFORE(i, j) (came[i] == 0 || came[j] <= came[i])
#define FIRST(j) (BEFORE(0, j) && BEFORE(1, j) && BEFORE(2, j))

inline find(who) {
    k = 0;
    do
    :: k < ROOM && line[k] != 0 && line[k] != (who) -> k++
    :: else -> break
    od
}

#define UP(i) if :: came[i] > place -> came[i]-- :: else fi

inline forget(s) {
    place = came[s];
    if
    :: place != 0 -> came[s] = 0; UP(0); UP(1); UP(2)
    :: else
    fi;
    place = 0
}

#define THERE(i) (came[i] != 0 -> 1 : 0)

inline note(s) {
    if
    :: came[s] == 0 -> came[s] = 1 + THERE(0) + THERE(1) + THERE(2)
    :: else
    fi
}

inline cut(who) {
    gone = who;
    find(gone);
    do
    :: k + 1 < ROOM && line[k] != 0 -> line[k] = line[k + 1]; k++
    :: else -> break
    od;
    if :: k < ROOM -> line[k] = 0 :: else fi;
    if :: granted == gone -> granted = 0 :: else fi;
    if :: gone != 0 -> forget(OWNER(gone)) :: else fi;
    k = 0; gone = 0
}

/* Grants to the first, if nobody is; the word may be lost. */
inline hand_over() {
    if
    :: granted == 0 && line[0] != 0 ->
           granted = line[0];
           if
           :: LAST_FIRST && line[1] != 0 -> granted = line[1]
           :: else
           fi;
           assert(FIRST(OWNER(granted))); /* order */
           if
           :: told[OWNER(granted)] = granted
           :: true
           fi
    :: else
    fi
}

/* The store executes a join of the session s under this id. */
inline execute_join(s, who) {
    if
    :: !row[s] && !DEAD_JOIN         /* answered: your session is over */
    :: row[s] && tomb[s] && !NO_TOMB /* answered: gone */
    :: else ->
           find(who);
           if
           :: k < ROOM && line[k] == 0 ->
                  line[k] = who; k = 0; note(s)
           :: MOVES_BACK && k + 1 < ROOM && line[k] == who &&
              line[k + 1] != 0 && granted != who ->
                  line[k] = line[k + 1]; line[k + 1] = who; k = 0
           :: else -> k = 0
           fi;
           hand_over()
    fi
}

inline execute_leave(s, who) {
    if
    :: LEAVE_HEAD && granted != 0 -> cut(granted)
    :: else -> cut(who)
    fi;
    tomb[s] = true;
    hand_over()
}

#define MAY_LOSE (losses < LOSSES)

proctype session(byte i)
{
    bool again;

    do
    :: crashed[i] -> break
    :: atomic { !crashed[i] && state[i] == asks && row[i] ->
           if :: NEW_ID && again -> id[i] = i + 1 + N :: else fi;
           if /* what becomes of the call */
           :: execute_join(i, id[i]); state[i] = waits
           :: MAY_LOSE -> losses++; again = true; execute_join(i, id[i])
           :: MAY_LOSE && late_join[i] == 0 ->
                  losses++; again = true; late_join[i] = id[i]
           fi }
    :: atomic { !crashed[i] && state[i] == asks && again -> /* gives up */
           state[i] = leaves }
    :: atomic { !crashed[i] && told[i] == id[i] && state[i] == waits ->
           told[i] = 0;
           if
           :: BLIND_PUSH || !silent[i] -> state[i] = holds
           :: else
           fi;
           assert(ONE); /* one */
           assert(state[i] != holds || granted == id[i]) } /* own */
    :: atomic { /* looks at the queue itself */
           !NO_RECHECK && !crashed[i] && state[i] == waits && !silent[i] &&
           granted == id[i] -> state[i] = holds;
           assert(ONE) } /* one */
    :: atomic { !crashed[i] && state[i] == holds ->
           state[i] = leaves; told[i] = 0 }
    :: atomic { !crashed[i] && state[i] == leaves && row[i] ->
           if
           :: execute_leave(i, id[i]); state[i] = served
           :: MAY_LOSE -> losses++; execute_leave(i, id[i])
           :: MAY_LOSE && late_leave[i] == 0 ->
                  losses++; late_leave[i] = id[i]
           fi }
    :: atomic { /* hears that its session is dead */
           !crashed[i] && !row[i] && state[i] != served -> state[i] = lost };
       break
    :: state[i] == served -> break
    od
}

#define FALL(i) \
    atomic { falls < FALLS && !silent[i] -> falls++; silent[i] = true; \
        if :: crashed[i] = true :: true fi }
/* A renewal came through in time after all. */
#define RISE(i) \
    atomic { silent[i] && !crashed[i] && row[i] -> silent[i] = false; \
        assert(ONE) }
#define ARRIVE(i) \
    atomic { late_join[i] != 0 -> \
        execute_join(i, late_join[i]); late_join[i] = 0 } \
    :: atomic { late_leave[i] != 0 -> \
        execute_leave(i, late_leave[i]); late_leave[i] = 0 }

/* What befalls sessions and messages. */
active proctype world()
{
end:
    do
    :: FALL(0)
    :: FALL(1)
    :: FALL(2)
    :: RISE(0) /* assert(ONE) */ /* one */
    :: RISE(1) /* assert(ONE) */ /* one */
    :: RISE(2) /* assert(ONE) */ /* one */
    :: ARRIVE(0)
    :: ARRIVE(1)
    :: ARRIVE(2)
    od
}

inline cut_session(s) {
    cut(s + 1);
    if :: NEW_ID -> cut(s + 1 + N) :: else fi;
    hand_over()
}

#define DECLARE(i) \
    atomic { dead == 0 && silent[i] && row[i] && !NO_KEEPER -> \
        dead = i + 1; \
        if \
        :: CUT_FIRST -> cut_session(i) \
        :: else -> row[i] = false \
        fi }

/* Anybody who looks at the queue does this; it may stop between the steps. */
active proctype keeper()
{
    byte dead;

end:
    do
    :: DECLARE(0)
    :: DECLARE(1)
    :: DECLARE(2)
    :: atomic { dead != 0 ->
           if
           :: CUT_FIRST -> row[dead - 1] = false
           :: else -> cut_session(dead - 1)
           fi;
           dead = 0 }
    od
}

init {
    byte i;

    atomic {
        id[0] = 1; id[1] = 2; id[2] = 3;
        row[0] = true; row[1] = true; row[2] = true;
        run session(0); run session(1); run session(2)
    };
    /* When nothing can happen any more. */
    timeout;
    d_step {
        i = 0;
        do
        :: i < N ->
               assert(ENDED(i)); /* moves */
               i++
        :: else -> break
        od
    }
}
