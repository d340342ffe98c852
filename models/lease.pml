/* lease.pml - one lease, one careful client, an ideal rival, a bad world.
 *
 * The client asks, renews, writes to a resource that checks tokens, and gives
 * back.  Between it and the store requests and answers are lost, late, and
 * repeated; it may stand still between any two steps while time goes on.  The
 * store has a copy that lags behind; once, the copy takes over and has
 * forgotten what it had not heard of.  The rival acts at once and never waits:
 * whatever a slower one could do, it does.
 *
 * Proved for every order of events:
 *   one     never two who believe at one instant (G1)
 *   rising  every grant has a larger token than all before (G2)
 *   fresh   the resource never takes a write that is older than one it took
 *
 * Each planted bug (VARIANT, see run) breaks one of them. */

#ifndef VARIANT
#define VARIANT 0
#endif
#define FROM_ANSWER (VARIANT == 1) /* lease counted from the answer */
#define ANY_ANSWER (VARIANT == 2)  /* of another attempt: believed */
#define NO_FENCE (VARIANT == 3)    /* the resource takes all */
#define NO_REST (VARIANT == 4)     /* a copy grants at once */
#define NO_FLOOR (VARIANT == 5)    /* and counts where it was */
#define NO_OWNER (VARIANT == 6)    /* anybody's lock is given back */

#define TERM 2 /* of a lease */
#ifndef LAST
#define LAST 3 /* the end of time */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* of the client */
#endif
#define RIVAL 9

mtype = { none, join, renew, leave };

byte now;
/* the store, and its copy */
byte owner, ends, token, rest_until, copy_owner, copy_ends, copy_token;
bool copied_over;
/* what the two believe, and what the resource has seen */
byte until, rival_until, rival_grants, seen;
bool holds;
/* under way: one request, one answer; what is overwritten is lost */
mtype asked = none;
byte asked_id, asked_try, answer_try, answer_token, answer_left;
bool answered;

#define BELIEVES (holds && now < until)

/* A token is never below the clock: so a store that forgot its counter goes on
 * above what it gave out. */
inline draw_token() {
    token++;
    if
    :: !NO_FLOOR && token < 8 * now + 8 -> token = 8 * now + 8
    :: else
    fi
}

active proctype world()
{
    do
    :: d_step { now < LAST -> now++;
           if :: rival_until <= now -> rival_until = 0 :: else fi }
    :: d_step { !copied_over &&
                (copy_owner != owner || copy_ends != ends) ->
           copy_owner = owner; copy_ends = ends; copy_token = token }
    :: d_step { !copied_over -> copied_over = true;
           owner = copy_owner; ends = copy_ends; token = copy_token;
           if :: NO_REST :: else -> rest_until = now + TERM fi }
    :: d_step { /* the rival asks and is told in one instant */
           rest_until <= now && (owner == 0 || ends <= now) &&
           rival_grants < 2 ->
           rival_grants++;
           draw_token(); owner = RIVAL; ends = now + TERM; rival_until = ends;
           assert(!BELIEVES);     /* one */
           assert(token > seen); /* rising: it writes at once */
           seen = token }
    :: d_step { rival_until > now && owner == RIVAL ->
           owner = 0; rival_until = 0 }
    :: now == LAST -> break
    od
}

active proctype store()
{
    byte given, left;
end:
    do
    :: d_step { asked != none -> given = 0; left = 0;
           if
           :: asked == join && owner == asked_id && ends > now ->
                  given = token; left = ends - now /* asked again */
           :: asked == join && (owner == 0 || ends <= now) &&
              rest_until <= now ->
                  draw_token(); owner = asked_id; ends = now + TERM;
                  given = token; left = TERM
           :: asked == renew && owner == asked_id && ends > now ->
                  ends = now + TERM; given = token; left = TERM
           :: asked == leave && (owner == asked_id || NO_OWNER) -> owner = 0
           :: else
           fi;
           answered = true; answer_try = asked_try;
           answer_token = given; answer_left = left;
           asked = none; asked_id = 0; asked_try = 0; given = 0; left = 0 }
    :: d_step { answered -> answered = false; /* lost */
           answer_try = 0; answer_token = 0; answer_left = 0 }
    od
}

inline send(what) {
    d_step { try++; sent = now; asked = what; asked_id = id; asked_try = try }
}

/* Asks, once more if it likes, and takes an answer or gives up. */
inline call(what) {
    d_step { got = 0; left = 0; again = false; mine = false };
    send(what);
    do
    :: d_step { answered ->
           if
           :: ANY_ANSWER || answer_try == try ->
                  got = answer_token; left = answer_left; mine = true
           :: else
           fi;
           answered = false; answer_try = 0; answer_token = 0;
           answer_left = 0 };
       if :: mine -> break :: else fi
    :: !again -> again = true; send(what)
    :: break
    od;
    skip
}

inline believe() {
    if :: FROM_ANSWER -> until = now + left :: else -> until = sent + left fi;
    assert(!(BELIEVES && rival_until > now)) /* one */
}

inline write() {
    d_step {
        if
        :: NO_FENCE || my_token >= seen ->
               assert(my_token >= seen); /* fresh */
               assert(my_token != seen); /* rising */
               seen = my_token
        :: else
        fi
    }
}

active proctype client()
{
    byte id, try, sent, got, left, my_token, round;
    bool again, mine;

    do
    :: round == ROUNDS -> break
    :: round < ROUNDS -> round++; id++;
       call(join);
       if
       :: got == 0
       :: got != 0 ->
              d_step { my_token = got; holds = true; believe() };
              if
              :: BELIEVES -> call(renew);
                     d_step { if
                              :: got == my_token && BELIEVES -> believe()
                              :: else
                              fi }
              :: true
              fi;
              if /* it looks, may stand still, and writes */
              :: BELIEVES -> write()
              :: !BELIEVES
              fi
       fi;
       d_step { holds = false; until = 0; my_token = 0 };
       call(leave);
       d_step { got = 0; left = 0; sent = 0; again = false; mine = false }
    od
}
