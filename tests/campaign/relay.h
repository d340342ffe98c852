/* relay.h - what relay.c and relay_words.c share: links, and the connections on
 * them.
 *
 * One thread has all of it, so there is no lock. */
#ifndef HF_TEST_RELAY_H
#define HF_TEST_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINKS = 32, CONNS = 400, NAMES = 8, QUEUE_MOST = 1 << 20 };
enum { UP, DOWN };
enum { CUT = 1, HALF, NOISE }; /* strikes */

typedef struct chunk {
    struct chunk *next;
    int64_t due;
    size_t len, sent;
    char bytes[];
} chunk;

/* How many commands, or answers, of Redis have passed in one direction. */
typedef struct passed {
    uint64_t whole;
    size_t skip;   /* bytes of a string that are still to come */
    int64_t parts; /* of the one that is under way */
    char line[24];
    size_t len;
} passed;

typedef struct conn {
    int fd[2]; /* the client's, the server's; -1: free */
    int link;
    chunk *first[2], *last[2]; /* what is under way up, and down */
    size_t queued[2];
    bool ended[2]; /* who feeds this direction has ended */
    bool dialling, seen;
    int64_t moved; /* when bytes came or went last */
    int way;       /* of those */
    bool redis;    /* it speaks so: commands and answers can be counted */
    passed passed[2];
    int swap_port; /* where to go on, once nothing is under way; 0: here */
    int64_t swap_by;
    char name[40];
} conn;

typedef struct link_state {
    int listener, port, to_port;
    bool hold[2], front[2], refuse, apart;
    int strike[2];
    int delay_ms, jitter_ms;
} link_state;

extern link_state relay_links[LINKS];
extern int relay_link_count;
extern conn relay_conns[CONNS];
extern char relay_held_names[NAMES][40];
extern unsigned relay_struck; /* strikes that have hit */

int64_t relay_now(void);
void relay_end(conn *c, bool reset);

/* Reads what there is of the input and obeys; false: it has ended. */
bool relay_read_words(void);

#endif
