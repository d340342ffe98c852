/* links.h - TCP links that a test can hold and cut.
 *
 * Each link listens on a loopback port and carries bytes to another, whatever
 * they mean; a held one carries nothing and ends nothing, as a network that
 * loses every packet.  One thread carries for all links of a set. */
#ifndef HF_TEST_LINKS_H
#define HF_TEST_LINKS_H

#include <stdbool.h>

typedef struct links links;

/* mark: where this stands in the first bytes of a connection ("X-Name: "), the
 * word behind it is the connection's name; NULL: they have none. */
links *links_start(const char *mark);
void links_stop(links *l); /* ends all connections; frees; NULL is allowed */

/* A new link to this port; its number, from 0. */
int links_add(links *l, int to_port);
int links_port(links *l, int link);
/* While on, nothing flows, and a new connection is not answered. */
void links_hold(links *l, int link, bool on);
/* The same for all connections of this name, over any link. */
void links_hold_named(links *l, const char *name, bool on);
/* End all connections of a link now, with a RST to both sides. */
void links_cut(links *l, int link);
/* While on, a new connection is ended at once. */
void links_refuse(links *l, int link, bool on);
int links_open(links *l, int link); /* connections now */

#endif
