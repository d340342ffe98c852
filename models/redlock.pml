/* redlock.pml - a majority of servers that know nothing of each other.
 *
 * Two clients want one lock on three servers.  A server votes for whom it has,
 * or for the first who asks, and draws a number with its vote; a client with a
 * majority takes the largest, and tells it as its token once a majority of
 * those that voted for it count with it: servers that are behind are raised
 * first, only while they are still its own.  Requests are late, answers are
 * lost, a vote arrives after its client has gone.  Whoever gives up or releases
 * says so to all, by its own name; a message that is lost is the end of the
 * lease, which has the same effect.  One server comes back without its memory:
 * it does not vote until every lease that it may have given has ended, and then
 * counts from its clock, which is above all numbers that were told.
 *
 * Time is only an order of events: what a client holds does not end before it
 * stops believing, which clock.pml proves.
 *
 * Proved for every order of events:
 *   one     never two who hold at one instant (G1)
 *   rising  every token is larger than all that were told before (G2)
 *
 * Each planted bug (VARIANT, see run) breaks one of them. */
#ifndef VARIANT
#define VARIANT 0
#endif
#define NO_RAISE (VARIANT == 1)  /* the largest number alone */
#define RAISE_ANY (VARIANT == 2) /* also servers that voted for others */
#define SMALLEST (VARIANT == 3)  /* the token is the smallest number */
#define AT_ONCE (VARIANT == 4)   /* a server without memory votes at once */
#define NO_CLOCK (VARIANT == 5)  /* and counts from nothing */
#define MINORITY (VARIANT == 6)  /* half of the votes will do */
#define NO_END (VARIANT == 7)    /* votes that ended on the way count */

#define N 3
#define NEED (MINORITY -> 1 : 2)
#define AT(c, n) ((c) * N + (n))

mtype = { votes, raises, holds, gone };

/* the servers */
byte owner[N], counter[N];
bool resting[N]; /* without memory, and silent */
bool restarted;
/* the clients; of each and each server: */
mtype phase[2] = votes;
bool late[2]; /* a lease ended before it was told */
byte number[2];
bool asked[6], raise[6], leave[6]; /* a message is under way */
bool mine[6], level[6];            /* as it heard */
byte drawn[6];
byte told;

#define COUNT(set, c) (set[AT(c, 0)] + set[AT(c, 1)] + set[AT(c, 2)])

/* The vote of server n for client c; the answer may be lost. */
#define VOTE(c, n) \
    atomic { asked[AT(c, n)] && !resting[n] -> asked[AT(c, n)] = false; \
        if \
        :: owner[n] == 0 || owner[n] == c + 1 -> \
               owner[n] = c + 1; counter[n]++; \
               if \
               :: phase[c] == votes -> \
                      mine[AT(c, n)] = true; drawn[AT(c, n)] = counter[n] \
               :: true \
               fi \
        :: else \
        fi }
#define RAISE(c, n) \
    atomic { raise[AT(c, n)] -> raise[AT(c, n)] = false; \
        if \
        :: !resting[n] && (owner[n] == c + 1 || RAISE_ANY) -> \
               if \
               :: counter[n] < number[c] -> counter[n] = number[c] \
               :: else \
               fi; \
               if \
               :: phase[c] == raises -> level[AT(c, n)] = true \
               :: true \
               fi \
        :: else \
        fi }
/* Given back, or run out. */
#define LEAVE(c, n) \
    d_step { leave[AT(c, n)] && owner[n] == c + 1 -> owner[n] = 0 }
/* It stands still for so long that a server's lease ends meanwhile. */
#define END(c, n) \
    d_step { owner[n] == c + 1 && (phase[c] == votes || phase[c] == raises) -> \
        owner[n] = 0; late[c] = true }

#define COUNTS_ON(c, n) (mine[AT(c, n)] && phase[c] != gone)
#define FORGET(n) \
    d_step { !restarted -> restarted = true; owner[n] = 0; counter[n] = 0; \
        resting[n] = !AT_ONCE }
#define WAKE(n) \
    d_step { resting[n] && !COUNTS_ON(0, n) && !COUNTS_ON(1, n) -> \
        resting[n] = false; \
        if :: NO_CLOCK -> counter[n] = 0 :: else -> counter[n] = told fi }

#define SERVES(n) \
    :: VOTE(0, n) \
    :: VOTE(1, n) \
    :: RAISE(0, n) \
    :: RAISE(1, n) \
    :: LEAVE(0, n) \
    :: LEAVE(1, n) \
    :: END(0, n) \
    :: END(1, n) \
    :: FORGET(n) \
    :: WAKE(n)

active proctype servers()
{
end:
    do
    SERVES(0)
    SERVES(1)
    SERVES(2)
    od
}

inline take(n) {
    if
    :: mine[AT(c, n)] && (number[c] == 0 ||
                          (!SMALLEST && drawn[AT(c, n)] > number[c]) ||
                          (SMALLEST && drawn[AT(c, n)] < number[c])) ->
           number[c] = drawn[AT(c, n)]
    :: else
    fi
}

inline be_level(n) {
    level[AT(c, n)] = mine[AT(c, n)] && drawn[AT(c, n)] == number[c]
}

inline tell() {
    assert(phase[1 - c] != holds); /* one */
    assert(number[c] > told);      /* rising */
    told = number[c]; phase[c] = holds
}

inline ask_raise(n) {
    raise[AT(c, n)] = !level[AT(c, n)] && (mine[AT(c, n)] || RAISE_ANY)
}

inline forget(n) {
    leave[AT(c, n)] = true;
    mine[AT(c, n)] = false; level[AT(c, n)] = false; drawn[AT(c, n)] = 0
}

inline renew(n) {
    mine[AT(c, n)] = owner[n] == c + 1
}

proctype client(byte c)
{
    do
    :: d_step { phase[c] == votes && COUNT(mine, c) >= NEED &&
                (!late[c] || NO_END) ->
           take(0); take(1); take(2);
           be_level(0); be_level(1); be_level(2);
           if
           :: COUNT(level, c) >= NEED || NO_RAISE || SMALLEST -> tell()
           :: else -> phase[c] = raises;
                  ask_raise(0); ask_raise(1); ask_raise(2)
           fi }
    :: d_step { phase[c] == raises && COUNT(level, c) >= NEED &&
                (!late[c] || NO_END) -> tell() }
    /* A majority has it for longer; those that have forgotten do not count. */
    :: d_step { phase[c] == holds &&
                (owner[0] == c + 1) + (owner[1] == c + 1) +
                (owner[2] == c + 1) >= NEED ->
           renew(0); renew(1); renew(2) }
    /* Gives up, releases, is gone. */
    :: d_step { phase[c] != gone -> phase[c] = gone; late[c] = false;
           forget(0); forget(1); forget(2) };
       break
    od
}

init {
    atomic {
        counter[0] = 3; /* as far apart as a restart leaves them */
        asked[0] = true; asked[1] = true; asked[2] = true;
        asked[3] = true; asked[4] = true; asked[5] = true;
        run client(0); run client(1)
    }
}
