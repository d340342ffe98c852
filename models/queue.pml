/* queue.pml - a queue whose releaser grants to the next, and sessions that die.
 *
 * Three sessions, one place each in one queue.  Whoever leaves, or cuts the
 * dead out, marks the first who is left as granted and sends it a word, which
 * may be lost.  Sessions fall silent (crashed, stopped, cut off) at any moment;
 * a stopped one may be heard of again.  Time is only an order of events: a
 * session's own deadline passes before the store may declare it dead, which
 * lease.pml proves.
 *
 * A session is dead when its row is gone, in one step; only then are its
 * entries cut, in another, and only then is somebody granted.
 *
 * Proved for every order of events:
 *   one     never two who believe at one instant (G1)
 *   order   granted is who came first of those that are left (G3)
 *   moves   when nothing can happen any more, everybody who lives was served
 *           (G4)
 *
 * Each planted bug (VARIANT, see run) breaks one of them. */
#ifndef VARIANT
#define VARIANT 0
#endif
#define CUT_FIRST (VARIANT == 1)   /* entries go before the session is dead */
#define BLIND_PUSH (VARIANT == 2)  /* a word is believed by the dead */
#define NO_RECHECK (VARIANT == 3)  /* a lost word is never made up for */
#define LAST_FIRST (VARIANT == 4)  /* the last one in line is granted */
#define NO_KEEPER (VARIANT == 5)   /* nobody cuts the dead out */

#define N 3

mtype = { away, waits, holds, served, lost };

mtype state[N] = away;
bool row[N];    /* the store knows the session */
bool silent[N]; /* its own deadline has passed: it believes nothing */
bool crashed[N];
bool told[N];   /* a word is under way */
byte line[N];   /* sessions in their order, from 1; 0: nobody */
byte granted;   /* of them, 0: nobody */
byte falls;     /* silent ones so far */

#define BELIEVES(i) (state[i] == holds && !silent[i])
#define ONE \
    (!(BELIEVES(0) && BELIEVES(1)) && !(BELIEVES(0) && BELIEVES(2)) && \
     !(BELIEVES(1) && BELIEVES(2)))

inline append(who) {
    if
    :: line[0] == 0 -> line[0] = who
    :: line[0] != 0 && line[1] == 0 -> line[1] = who
    :: else -> line[2] = who
    fi
}

inline cut(who) {
    if
    :: line[0] == who -> line[0] = line[1]; line[1] = line[2]; line[2] = 0
    :: line[1] == who -> line[1] = line[2]; line[2] = 0
    :: line[2] == who -> line[2] = 0
    :: else
    fi;
    if :: granted == who -> granted = 0 :: else fi
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
           assert(granted == line[0]); /* order */
           if
           :: told[granted - 1] = true
           :: true
           fi
    :: else
    fi
}

proctype session(byte i)
{
    atomic { row[i] = true; append(i + 1); state[i] = waits; hand_over() };
    do
    :: crashed[i] -> break
    :: atomic { !crashed[i] && told[i] && state[i] == waits ->
           told[i] = false;
           if
           :: BLIND_PUSH || !silent[i] -> state[i] = holds
           :: else
           fi;
           assert(ONE);
           assert(!(state[i] == holds && granted != i + 1)) } /* one */
    :: atomic { /* looks at the queue itself */
           !NO_RECHECK && !crashed[i] && state[i] == waits && !silent[i] &&
           granted == i + 1 -> state[i] = holds; assert(ONE) }
    :: atomic { /* hears that its session is dead */
           !crashed[i] && !row[i] && (state[i] == waits || state[i] == holds) ->
           state[i] = lost };
       break
    :: atomic { !crashed[i] && state[i] == holds && row[i] ->
           state[i] = served; told[i] = false;
           cut(i + 1); hand_over() };
       break
    od
}

#define FALL(i) \
    atomic { falls < 2 && !silent[i] -> falls++; silent[i] = true; \
        if :: crashed[i] = true :: true fi }
/* A renewal came through in time after all. */
#define RISE(i) \
    atomic { silent[i] && !crashed[i] && row[i] -> silent[i] = false; \
        assert(ONE) }

/* What befalls sessions. */
active proctype world()
{
end:
    do
    :: FALL(0)
    :: FALL(1)
    :: FALL(2)
    :: RISE(0)
    :: RISE(1)
    :: RISE(2)
    od
}

#define DECLARE(i) \
    atomic { dead == 0 && silent[i] && row[i] && !NO_KEEPER -> \
        dead = i + 1; \
        if \
        :: CUT_FIRST -> cut(dead); hand_over() \
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
           :: else -> cut(dead); hand_over()
           fi;
           dead = 0 }
    od
}

init {
    byte i;

    atomic { run session(0); run session(1); run session(2) };
    /* When nothing can happen any more: moves. */
    timeout;
    d_step {
        i = 0;
        do
        :: i < N ->
               assert(crashed[i] || state[i] == served || state[i] == lost);
               i++
        :: else -> break
        od
    }
}
