/* place.c - where a database is: what the URL says, kept for a port's life.
 *
 * Answers: which hosts, as whom, how secret, and how long may each host take?
 * Knows nothing of a client library; the drivers hand these words to theirs.
 *
 * The strings of the URL, the password among them, are copied once into one
 * piece of memory and are wiped with it; no message is made from them but
 * host, port, socket and database.  A file of TLS without tls=yes is refused:
 * who names a CA must not be served by a connection that asks nobody.
 *
 * Paused here, two of us here: a place never changes once it is read. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "place.h"
#include "port.h"

enum { TURN_MS = 30000 }; /* the longest, for one host */

/* Twice: to count, and to copy. */
static void copy_strings(sql_place *p, const hf_url *url,
                         const sql_place_words *w, sql_strings *c)
{
    const char *path = hfd_url_path(url);
    size_t n = hfd_url_host_count(url);

    p->user = sql_strings_put(c, hfd_url_user(url));
    p->password = sql_strings_put(c, hfd_url_password(url));
    p->database = sql_strings_put(c, *path == '/' ? path + 1 : path);
    p->socket = sql_strings_put(c, hfd_url_option(url, w->socket_option));
    p->ca_file = sql_strings_put(c, hfd_url_option(url, "ca_file"));
    p->cert_file = sql_strings_put(c, hfd_url_option(url, "cert_file"));
    p->key_file = sql_strings_put(c, hfd_url_option(url, "key_file"));
    for (size_t i = 0; i < n; i++) {
        unsigned number = hfd_url_port(url, i);

        p->hosts[i] = sql_strings_put(c, hfd_url_host(url, i));
        p->ports[i] = number ? number : w->port;
    }
    if (n == 0) {
        p->hosts[n] = sql_strings_put(c, "127.0.0.1");
        p->ports[n++] = w->port;
    }
    p->host_count = n;
}

static int read_tls(sql_place *p, const hf_url *url, const char *driver,
                    hf_error *err)
{
    const char *tls = hfd_url_option(url, "tls");

    p->tls_verify = true;
    if (hfd_url_flag(url, "tls_verify", &p->tls_verify, err) != 0)
        return HF_EURL;
    if (!tls)
        tls = p->ca_file ? "yes" : "prefer";
    if (strcmp(tls, "yes") == 0)
        p->tls = SQL_TLS_YES;
    else if (strcmp(tls, "no") == 0)
        p->tls = SQL_TLS_NO;
    else if (strcmp(tls, "prefer") == 0)
        p->tls = SQL_TLS_PREFER;
    else
        return hfd_error(err, HF_EURL, driver, 0,
                         "option tls is yes, no or prefer");
    if (p->tls != SQL_TLS_YES && (p->ca_file || p->cert_file || p->key_file ||
                                  hfd_url_option(url, "tls_verify")))
        return hfd_error(err, HF_EURL, driver, 0,
                         "ca_file, cert_file, key_file and tls_verify are for "
                         "tls=yes");
    return 0;
}

int sql_place_read(sql_place *ret, const hf_url *url, const sql_place_words *w,
                   hf_error *err)
{
    sql_strings count = {0}, copy = {0};

    if (hfd_url_host_count(url) > SQL_HOSTS)
        return hfd_error(err, HF_EURL, w->driver, 0, "at most %d hosts",
                         SQL_HOSTS);
    copy_strings(ret, url, w, &count);
    copy.to = ret->text = hfd_alloc(count.len + 1);
    if (!ret->text)
        return hfd_error(err, HF_ENOMEM, w->driver, 0, "out of memory");
    ret->text_len = count.len;
    copy_strings(ret, url, w, &copy);
    return read_tls(ret, url, w->driver, err);
}

void sql_place_done(sql_place *place)
{
    if (place->text)
        explicit_bzero(place->text, place->text_len);
    hfd_free(place->text);
    *place = (sql_place){0};
}

void sql_place_say_host(const sql_place *place, size_t host, char *ret,
                        size_t room)
{
    if (place->socket)
        snprintf(ret, room, "%.100s", place->socket);
    else
        snprintf(ret, room, "%.100s:%u", place->hosts[host],
                 place->ports[host]);
}

void sql_place_say(const sql_place *place, char *ret, size_t room)
{
    size_t len = 0;

    if (place->socket)
        len = (size_t)snprintf(ret, room, "%.100s", place->socket);
    for (size_t i = 0; !place->socket && i < place->host_count && len < room;
         i++)
        len += (size_t)snprintf(ret + len, room - len, "%s%.60s:%u",
                                i ? "," : "", place->hosts[i], place->ports[i]);
    if (place->database && *place->database && len < room)
        snprintf(ret + len, room - len, "/%.60s", place->database);
}

hf_nsec sql_place_turn(const sql_place *place, size_t host, hf_nsec deadline)
{
    hf_nsec now = hfd_now();
    hf_nsec share = (deadline - now) / (hf_nsec)(place->host_count - host);

    if (deadline == HF_NEVER || share > HF_MS(TURN_MS))
        share = HF_MS(TURN_MS);
    return now + share;
}

/* Closing the old socket with linger 0 sends a reset; the one that takes its
 * place has no other end, so that writing fails at once.  (One that was never
 * connected would do without TLS only: OpenSSL takes that error for one that
 * passes, and writes for ever.) */
void sql_reset_socket(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int pair[2];

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) != 0) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    close(pair[1]);
    dup3(pair[0], fd, O_CLOEXEC);
    close(pair[0]);
}
