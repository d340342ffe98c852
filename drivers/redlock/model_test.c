/* model_test.c - can the token ever fall?  Every order of messages is tried.
 *
 * A small model of the whole algorithm: servers that vote, count and are raised
 * as the script says (layout.c), clients that decide with the driver's own
 * counting (vote.c).  A message may be lost, late, repeated and overtake any
 * other; a vote may arrive after its client has gone; a client may be paused,
 * give up or crash at any point; a server may come back empty, if it stays down
 * as long as the page asks for.  With three servers and two clients all states
 * are visited; with five servers and three clients as many as chance finds.
 *
 * Judged: never two holders, and each holder's token is larger than all that
 * were told before.  Three broken variants must be convicted, so that the model
 * can: no raising at all; raising a majority of any servers, also of those that
 * have not voted; and servers that come back empty at once. */
#include <stdlib.h>
#include <string.h>

#include "harness/expect.h"
#include "harness/runner.h"

#include "vote.h"

enum { NODES = 5, CLIENTS = 3, NUMBER_MAX = 60 };

typedef enum variant {
    RAISE_VOTERS = 0, /* what the driver does */
    RAISE_NOBODY,
    RAISE_ANYBODY,
    EMPTY_AT_ONCE
} variant;

typedef enum phase { VOTING = 0, RAISING, HELD, GONE } phase;

typedef enum message { /* what became of one */
                       UNSENT = 0,
                       SENT,
                       DONE, /* and its answer is lost */
                       HEARD
} message;

typedef struct client {
    uint8_t phase;
    uint8_t late; /* a server's lease of it ended before it was told */
    uint8_t number;
    uint8_t votes[NODES], raises[NODES]; /* message */
    uint8_t repeated[NODES];             /* a vote came twice */
    uint8_t mine[NODES], drawn[NODES];   /* as heard */
    uint8_t raised[NODES];               /* as heard: mine */
} client;

typedef struct state {
    uint8_t owner[NODES]; /* 0: nobody, else the client and one */
    uint8_t counter[NODES];
    uint8_t told;  /* the largest token */
    uint8_t spare; /* how many more rare things may happen */
    client clients[CLIENTS];
} state;

typedef struct model {
    variant variant;
    unsigned nodes, clients;
    const char *guilt; /* what was broken, once it was */
    /* states that were visited, by their hash */
    uint64_t *seen;
    size_t room, count;
} model;

/* ---- A server, as the script ---- */

static void run_vote(state *s, unsigned c, unsigned n, bool heard)
{
    client *me = &s->clients[c];
    bool mine = s->owner[n] == c + 1 || s->owner[n] == 0;

    if (mine) {
        s->counter[n]++;
        s->owner[n] = (uint8_t)(c + 1);
    }
    me->votes[n] = heard ? HEARD : DONE;
    if (heard) {
        me->mine[n] = mine;
        me->drawn[n] = mine ? s->counter[n] : 0;
    }
}

static void run_raise(const model *m, state *s, unsigned c, unsigned n,
                      bool heard)
{
    client *me = &s->clients[c];
    bool mine = s->owner[n] == c + 1 || m->variant == RAISE_ANYBODY;

    if (mine && s->counter[n] < me->number)
        s->counter[n] = me->number;
    me->raises[n] = heard ? HEARD : DONE;
    if (heard)
        me->raised[n] = mine;
}

/* ---- A client ---- */

/* Its votes are taken back, one by one and in any order, or run out: both are
 * EXPIRES.  What it has heard concerns nobody any more; what it has sent may
 * still arrive. */
static void go(client *me)
{
    me->phase = GONE;
    me->late = 0;
    for (unsigned n = 0; n < NODES; n++) {
        if (me->votes[n] != UNSENT)
            me->votes[n] = HEARD;
        if (me->raises[n] != SENT)
            me->raises[n] = UNSENT;
    }
    memset(me->mine, 0, sizeof me->mine);
    memset(me->drawn, 0, sizeof me->drawn);
    memset(me->raised, 0, sizeof me->raised);
    memset(me->repeated, 1, sizeof me->repeated);
}

static void tell(model *m, state *s, unsigned c)
{
    client *me = &s->clients[c];

    for (unsigned i = 0; i < m->clients; i++) {
        if (s->clients[i].phase == HELD)
            m->guilt = "two holders";
    }
    if (me->number <= s->told)
        m->guilt = "the token did not rise";
    s->told = me->number;
    me->phase = HELD;
}

static vote_tally tally_of(const model *m, const client *me)
{
    vote votes[NODES];

    memset(votes, 0, sizeof votes);
    for (unsigned n = 0; n < m->nodes; n++) {
        if (me->phase == RAISING)
            votes[n] = (vote){.heard = me->raises[n] == HEARD,
                              .code = me->raised[n] ? VOTE_MINE : VOTE_OTHER,
                              .number = me->number};
        else
            votes[n] = (vote){.heard = me->votes[n] == HEARD,
                              .code = me->mine[n] ? VOTE_MINE : VOTE_OTHER,
                              .number = me->drawn[n]};
    }
    return vote_count(votes, 1, m->nodes);
}

/* Its votes decide it; false: not yet. */
static bool decide(model *m, state *s, unsigned c)
{
    client *me = &s->clients[c];
    vote_tally tally = tally_of(m, me);

    if (tally.verdict == VOTE_OPEN)
        return false;
    if (tally.verdict == VOTE_NO || me->late) {
        go(me);
    } else if (me->phase == RAISING) {
        tell(m, s, c);
    } else {
        me->number = (uint8_t)tally.number;
        if (vote_is_level(&tally, m->nodes) || m->variant == RAISE_NOBODY) {
            tell(m, s, c);
        } else {
            me->phase = RAISING;
            for (unsigned n = 0; n < m->nodes; n++)
                me->raises[n] = SENT;
        }
    }
    return true;
}

/* ---- What may happen ---- */

enum { /* to a client, by itself */
       TO_DECIDE = 0,
       TO_GO, /* release, give up, crash */
       ALONE,
       /* between a client and a server */
       VOTE_HEARD = ALONE,
       VOTE_LOST,
       VOTE_AGAIN,
       RAISE_HEARD,
       RAISE_LOST,
       EXPIRES,
       EMPTIED,
       EVENTS
};

static bool happen_alone(model *m, state *s, unsigned c, unsigned event)
{
    client *me = &s->clients[c];

    if (me->phase == GONE)
        return false;
    if (event == TO_DECIDE)
        return me->phase != HELD && decide(m, s, c);
    go(me);
    return true;
}

/* Its lease on this server ends, which no holder sees: by arithmetic it has
 * stopped before.  One that votes is paused for that long. */
static bool expire(state *s, unsigned c, unsigned n)
{
    if (s->owner[n] != c + 1 || s->clients[c].phase == HELD)
        return false;
    s->owner[n] = 0;
    s->clients[c].late = s->clients[c].phase != GONE;
    return true;
}

/* Back without memory, when all its leases and tokens are past. */
static bool empty(const model *m, state *s, unsigned n)
{
    unsigned c = s->owner[n];

    if (m->variant == EMPTY_AT_ONCE) {
        s->owner[n] = 0;
        s->counter[n] = 0;
        return true;
    }
    for (unsigned i = 0; i < m->clients; i++) {
        const client *one = &s->clients[i];

        /* Who heard its vote and goes on has a lease of it. */
        if (one->mine[n] &&
            (one->phase == HELD || (one->phase != GONE && !one->late)))
            return false;
    }
    if (c > 0 && s->clients[c - 1].phase < HELD)
        s->clients[c - 1].late = 1;
    s->owner[n] = 0;
    s->counter[n] = s->told;
    return true;
}

static bool spend(state *s)
{
    if (s->spare == 0)
        return false;
    s->spare--;
    return true;
}

static bool happen(model *m, state *s, unsigned c, unsigned n, unsigned event)
{
    client *me = &s->clients[c];

    switch (event) {
    case VOTE_HEARD:
    case VOTE_LOST:
        if (me->votes[n] == HEARD ||
            (event == VOTE_LOST &&
             (me->votes[n] == DONE || me->phase == GONE || !spend(s))))
            return false;
        run_vote(s, c, n, event == VOTE_HEARD && me->phase != GONE);
        if (me->phase == GONE)
            me->votes[n] = HEARD;
        return true;
    case VOTE_AGAIN:
        if (me->votes[n] != HEARD || me->repeated[n] || !spend(s))
            return false;
        me->repeated[n] = 1;
        run_vote(s, c, n, me->phase == VOTING);
        me->votes[n] = HEARD;
        return true;
    case RAISE_HEARD:
    case RAISE_LOST:
        if (event == RAISE_LOST && (me->phase == GONE || !spend(s)))
            return false;
        if (me->raises[n] != SENT &&
            !(event == RAISE_HEARD && me->raises[n] == DONE))
            return false;
        run_raise(m, s, c, n, event == RAISE_HEARD);
        if (me->phase == GONE)
            me->raises[n] = me->raised[n] = 0;
        return true;
    case EXPIRES:
        return expire(s, c, n);
    case EMPTIED:
        return c == 0 && spend(s) && empty(m, s, n);
    default:
        return false;
    }
}

/* ---- Every state ---- */

static uint64_t hash_state(const state *s)
{
    const uint8_t *bytes = (const uint8_t *)s;
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < sizeof *s; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

static void grow(model *m)
{
    uint64_t *old = m->seen;
    size_t old_room = m->room;

    m->room = old_room ? old_room * 2 : 1 << 16;
    m->seen = calloc(m->room, sizeof *m->seen);
    EXPECT(m->seen != NULL);
    for (size_t i = 0; i < old_room; i++) {
        size_t at = old[i] & (m->room - 1);

        while (old[i] && m->seen[at])
            at = (at + 1) & (m->room - 1);
        if (old[i])
            m->seen[at] = old[i];
    }
    free(old);
}

static bool is_new(model *m, const state *s)
{
    uint64_t hash = hash_state(s);
    size_t at;

    if (m->count * 2 >= m->room)
        grow(m);
    at = hash & (m->room - 1);
    while (m->seen[at] && m->seen[at] != hash)
        at = (at + 1) & (m->room - 1);
    if (m->seen[at] == hash)
        return false;
    m->seen[at] = hash;
    m->count++;
    return true;
}

typedef struct stack {
    state *states;
    size_t count, room;
} stack;

static void push(model *m, stack *todo, const state *s)
{
    if (!is_new(m, s))
        return;
    if (todo->count == todo->room) {
        todo->room = todo->room ? todo->room * 2 : 1024;
        todo->states = realloc(todo->states, todo->room * sizeof *todo->states);
        EXPECT(todo->states != NULL);
    }
    todo->states[todo->count++] = *s;
}

static void visit_all(model *m, const state *first)
{
    stack todo = {0};

    push(m, &todo, first);
    while (todo.count > 0 && !m->guilt) {
        state at = todo.states[--todo.count];

        for (unsigned c = 0; c < m->clients; c++) {
            for (unsigned e = 0; e < ALONE; e++) {
                state next = at;

                if (happen_alone(m, &next, c, e))
                    push(m, &todo, &next);
            }
            for (unsigned e = ALONE; e < EVENTS * m->nodes; e++) {
                state next = at;

                if (e % EVENTS >= ALONE &&
                    happen(m, &next, c, e / EVENTS, e % EVENTS))
                    push(m, &todo, &next);
            }
        }
    }
    free(todo.states);
    free(m->seen);
}

/* ---- By chance ---- */

static uint64_t draw(uint64_t *seed, unsigned below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (*seed >> 11) % below;
}

static void walk_by_chance(model *m, const state *first, unsigned histories)
{
    uint64_t seed = UINT64_C(88172645463325252);

    for (unsigned h = 0; h < histories && !m->guilt; h++) {
        state s = *first;

        for (unsigned i = 0; i < 160 && !m->guilt; i++) {
            unsigned c = (unsigned)draw(&seed, m->clients);
            unsigned n = (unsigned)draw(&seed, m->nodes);
            unsigned e = (unsigned)draw(&seed, EVENTS + 8);

            /* Endings and crashes are rare, or nobody would ever hold. */
            if (e >= EVENTS)
                e = e % 2 ? VOTE_HEARD : RAISE_HEARD;
            if ((e == TO_GO || e == EMPTIED || e == EXPIRES) &&
                draw(&seed, 6) > 0)
                continue;
            if (e < ALONE)
                happen_alone(m, &s, c, e);
            else
                happen(m, &s, c, n, e);
        }
        m->count += s.told > 0;
    }
}

/* ---- The tests ---- */

/* Servers that count far apart. */
static state beginning(uint8_t spare)
{
    state s;

    memset(&s, 0, sizeof s);
    s.counter[0] = 5;
    s.spare = spare;
    return s;
}

/* All that two clients on three servers can come to; what is broken. */
static const char *search(variant v, uint8_t spare)
{
    model m = {.variant = v, .nodes = 3, .clients = 2};
    state first = beginning(spare);

    visit_all(&m, &first);
    printf("  variant %d: %zu states: %s\n", (int)v, m.count,
           m.guilt ? m.guilt : "nothing broken");
    EXPECT(m.guilt || m.count > 10000);
    return m.guilt;
}

static void every_order_of_two_clients(void)
{
    EXPECT(search(RAISE_VOTERS, 0) == NULL);
}

/* So many histories of so many; what was broken. */
static const char *try_luck(variant v, unsigned nodes, unsigned clients,
                            unsigned histories)
{
    model m = {.variant = v, .nodes = nodes, .clients = clients};
    state first = beginning(6);

    walk_by_chance(&m, &first, histories);
    printf("  variant %d, %u servers: %zu histories with a holder: %s\n",
           (int)v, nodes, m.count, m.guilt ? m.guilt : "nothing broken");
    return m.guilt;
}

static void by_chance(void)
{
    EXPECT(!try_luck(RAISE_VOTERS, 3, 3, 100000));
    EXPECT(!try_luck(RAISE_VOTERS, 5, 3, 100000));
}

static void without_raising_it_falls(void)
{
    EXPECT_STR(search(RAISE_NOBODY, 0), "the token did not rise");
}

static void a_majority_of_any_servers_is_not_enough(void)
{
    EXPECT_STR(search(RAISE_ANYBODY, 0), "the token did not rise");
}

static void a_server_that_is_back_at_once_breaks_it(void)
{
    EXPECT(try_luck(EMPTY_AT_ONCE, 3, 2, 1000000) != NULL);
}

static const test_case cases[] = {
    TEST(every_order_of_two_clients),
    TEST(by_chance),
    TEST(without_raising_it_falls),
    TEST(a_majority_of_any_servers_is_not_enough),
    TEST(a_server_that_is_back_at_once_breaks_it),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "model", cases, sizeof cases / sizeof *cases);
}
