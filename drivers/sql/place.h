/* place.h - where a database is, as whom and how secret: what a URL says of it,
 * the same for every client library. */
#ifndef HF_DRIVERS_SQL_PLACE_H
#define HF_DRIVERS_SQL_PLACE_H

#include <holdfast/driver.h>

enum { SQL_HOSTS = 8 };

/* PREFER: TLS if the server has it, and nobody is asked who it is. */
typedef enum sql_tls { SQL_TLS_NO, SQL_TLS_PREFER, SQL_TLS_YES } sql_tls;

typedef struct sql_place {
    char *text; /* the strings below live here */
    size_t text_len;
    const char *user, *password, *database; /* NULL or "": none */
    const char *socket;                     /* NULL: TCP */
    const char *hosts[SQL_HOSTS];
    unsigned ports[SQL_HOSTS];
    size_t host_count; /* at least 1 */
    sql_tls tls;
    bool tls_verify; /* with YES: it is who it says */
    const char *ca_file, *cert_file, *key_file;
} sql_place;

/* What differs between the drivers' URLs. */
typedef struct sql_place_words {
    const char *driver;        /* in messages */
    const char *socket_option; /* which names a Unix socket */
    unsigned port;             /* where the URL says none */
} sql_place_words;

/* *ret is all zeros before, and to be done with in any case.  The options of
 * TLS and the number of hosts are judged here, the socket by the driver. */
int sql_place_read(sql_place *ret, const hf_url *url, const sql_place_words *w,
                   hf_error *err);
/* Forgets the password. */
void sql_place_done(sql_place *place);

/* For messages: "one:5432,two:5432/app"; one of the hosts alone. */
void sql_place_say(const sql_place *place, char *ret, size_t room);
void sql_place_say_host(const sql_place *place, size_t host, char *ret,
                        size_t room);

/* When the next host is to be tried, if this one has not answered: its share of
 * the time that is left, so that a dead first one does not eat it all. */
hf_nsec sql_place_turn(const sql_place *place, size_t host, hf_nsec deadline);

/* A connection ends by a reset, and what the client library says at its end
 * goes nowhere.  The library closes fd itself. */
void sql_reset_socket(int fd);

#endif
