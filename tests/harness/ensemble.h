/* ensemble.h - a throwaway ZooKeeper or etcd of a test's own, of one member or
 * three.
 *
 * The members are children of the calling process (harness/zookeeper-server,
 * harness/etcd-server) that die with the thread which started them: start them
 * on the test's own thread.  A Java machine costs a second or two of a core:
 * one ensemble for several steps of a test is better than one for each. */
#ifndef HF_TEST_ENSEMBLE_H
#define HF_TEST_ENSEMBLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "harness/links.h"

typedef enum ensemble_kind { ON_ZOOKEEPER, ON_ETCD } ensemble_kind;
enum { ENSEMBLE_MOST = 3 };

typedef struct ensemble_options {
    int members;  /* 0: one */
    bool links;   /* members and clients meet through links (links.h) */
    bool tls;     /* ZooKeeper: a second port, client certificates looked at if
                    one comes; etcd: the port is for TLS with client
                    certificates.  server.pem of test_certificates() */
    bool expired; /* with expired.pem instead */
    bool auth;    /* etcd: users keeper and root, password s3cret */
    const char *more[12]; /* further lines of zoo.cfg, words for etcd */
} ensemble_options;

typedef struct ensemble_member {
    pid_t pid; /* 0: not running */
    bool paused;
    int port, tls_port; /* for clients, past the links */
    int ask_port;       /* etcd: plain, for /health and /metrics */
    int peer_port, vote_port;
    int front;             /* the link of the clients, or -1 */
    int to[ENSEMBLE_MOST]; /* the links to the others' ports for peers */
    char id[40];           /* etcd: what it calls itself to others */
    char folder[200], log[240];
} ensemble_member;

typedef struct ensemble {
    ensemble_kind kind;
    int count;
    ensemble_options options;
    links *between; /* NULL without links */
    ensemble_member members[ENSEMBLE_MOST];
} ensemble;

/* Starts all and waits until they serve; opt may be NULL.  What does not come
 * up fails the test with its log. */
ensemble *ensemble_start(ensemble_kind kind, const ensemble_options *opt);
void ensemble_stop(ensemble *e); /* kills, frees; NULL is allowed */

/* A member, by its place from 0: */
void ensemble_kill(ensemble *e, int i);  /* gone when this returns */
void ensemble_pause(ensemble *e, int i); /* SIGSTOP; it stands still now */
void ensemble_continue(ensemble *e, int i);
void ensemble_restart(ensemble *e, int i); /* with its data; does not wait */
/* Does it serve clients, being part of a quorum? */
bool ensemble_serves(ensemble *e, int i);
void ensemble_await(ensemble *e); /* until all that run do */
/* Who leads now, asked of those that run; -1: nobody says so. */
int ensemble_leader(ensemble *e);
int ensemble_await_leader(ensemble *e); /* fails the test after a minute */
int ensemble_follower(ensemble *e);     /* some member that follows */

/* With links: nothing passes between this member and the others, but for the
 * votes of ZooKeeper, whose members tell each other where they want them: cut
 * off a follower there, since a leader would be elected again and again. */
void ensemble_isolate(ensemble *e, int i, bool on);
/* What passes between clients and this member is held. */
void ensemble_hold_clients(ensemble *e, int i, bool on);
void ensemble_cut_clients(ensemble *e, int i); /* once, with a RST */

/* "zookeeper://127.0.0.1:PORT,...PATH", through the links if there are; past
 * them; of one member alone.  For TLS: zookeepers:// and etcds:// on localhost.
 * Good until the test ends. */
const char *ensemble_url(ensemble *e, const char *path);
const char *ensemble_direct_url(ensemble *e, const char *path);
const char *ensemble_member_url(ensemble *e, int i, const char *path);

#endif
