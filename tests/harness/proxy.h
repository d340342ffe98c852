/* proxy.h - a TCP proxy between a client and a Redis server that misbehaves
 * on command.
 *
 * It knows RESP well enough to tell where a command and its reply end, so a
 * rule can say "the second EVALSHA: executed, but its reply is lost".  It does
 * not know TLS. */
#ifndef HF_TEST_PROXY_H
#define HF_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct proxy proxy;

typedef enum proxy_act {
    PROXY_PASS = 0,
    PROXY_CUT_BEFORE, /* the connection ends, the server never sees it */
    PROXY_SWALLOW,    /* the server never sees it, and nothing is said */
    PROXY_CUT_REPLY,  /* executed; the connection ends instead of the reply */
    PROXY_DROP_REPLY, /* executed; the reply is left out, later ones come */
    PROXY_DELAY,      /* executed; its reply and all behind it are ms late */
    PROXY_TRUNCATE,   /* executed; half of its reply comes, then the end */
    PROXY_REPLACE     /* executed; `text` comes instead of its reply */
} proxy_act;

typedef struct proxy_rule {
    const char *command; /* "EVALSHA"; "message": a push; NULL: any command */
    const char *word;    /* with this in one of its words; NULL: any */
    unsigned nth;        /* the n-th of these from now on; 0: all of them */
    proxy_act act;
    int ms;           /* PROXY_DELAY */
    const char *text; /* PROXY_REPLACE; lives while the rule stands */
    size_t len;       /* 0: strlen(text) */
} proxy_rule;

/* Listens on a free loopback port; connects on to `port` for each client. */
proxy *proxy_start(int port);
int proxy_port(const proxy *p);
void proxy_stop(proxy *p); /* ends all connections; frees; NULL is allowed */

/* One rule at a time; NULL: none.  Counts from here. */
void proxy_set(proxy *p, const proxy_rule *rule);
unsigned proxy_struck(proxy *p); /* how often the rule was applied */
/* Complete commands with this name that came since the start (NULL: all). */
unsigned proxy_count(proxy *p, const char *command);
unsigned proxy_connections(proxy *p); /* open now */

void proxy_cut_all(proxy *p); /* once, with a RST to the client */
/* Once: each connection goes on at a new one to the server, and its client is
 * not told.  Done when it returns. */
void proxy_swap(proxy *p);
/* The same, and two that have subscribed exchange the server's sides. */
void proxy_cross(proxy *p);
/* While on, nothing flows and nothing ends; new connections wait, too. */
void proxy_black_hole(proxy *p, bool on);
/* While on, a new connection is ended at once. */
void proxy_refuse(proxy *p, bool on);

#endif
