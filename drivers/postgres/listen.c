/* listen.c - one connection that hears whose turn it is, and the call to them.
 *
 * A session's channel is "hf_" and its id; what is said there is "RID NUM RUN",
 * the entry whose turn it is; NUM 0 is: look.  Answers nothing about who holds:
 * a push is a hint, behind which stand the timed looks of the core.
 *
 * LISTEN is committed before listen() answers, and so before the join that may
 * wait: what is said after that join is heard.  When the connection breaks the
 * store is told that it is deaf, and the next listen() opens another one, on
 * the thread of an operation, where waiting is allowed; dispatch() only ever
 * reads.  While listen() uses the connection it is out of dispatch's sight, and
 * what libpq read meanwhile is announced by an event of our own (kick).
 *
 * Two of us here: `opening` is held by the one who opens, over waits; `mu`
 * guards the pointer and is held for moments; nobody is called under it.
 * Paused here: pushes queue up at the server, and looks go on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "postgres.h"

enum {
    AT_ONCE = 32,     /* pushes told in a row without the mutex */
    WAKES = 16,       /* sessions called by one statement */
    BACKOFF_MS = 100, /* after a failure, doubled up to ... */
    BACKOFF_MOST_MS = 3200
};

/* ---- The descriptor ----------------------------------------------------- */

static int add_fd(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int pg_ear_init(pg_port *port, hf_error *err)
{
    pg_listener *ear = &port->ear;

    pthread_mutex_init(&ear->opening, NULL);
    pthread_mutex_init(&ear->mu, NULL);
    ear->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ear->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ear->epoll_fd < 0 || ear->kick_fd < 0 ||
        add_fd(ear->epoll_fd, ear->kick_fd) != 0)
        return hfd_error(err, HF_EFULL, "postgres", 0,
                         "no descriptor left for the listener");
    return 0;
}

/* Out of dispatch's sight, and out of the port. */
static pg_conn *take_conn(pg_listener *ear)
{
    pg_conn *c;

    pthread_mutex_lock(&ear->mu);
    c = ear->conn;
    ear->conn = NULL;
    if (c && PQsocket(c->pg) >= 0)
        epoll_ctl(ear->epoll_fd, EPOLL_CTL_DEL, PQsocket(c->pg), NULL);
    pthread_mutex_unlock(&ear->mu);
    return c;
}

static bool put_conn(pg_listener *ear, pg_conn *c, const char *sid)
{
    const uint64_t one = 1;
    bool in;

    pthread_mutex_lock(&ear->mu);
    in = add_fd(ear->epoll_fd, PQsocket(c->pg)) == 0;
    if (in) {
        ear->conn = c;
        snprintf(ear->sid, sizeof ear->sid, "%s", sid);
    }
    pthread_mutex_unlock(&ear->mu);
    /* libpq may have read pushes beside the answer. */
    if (in && write(ear->kick_fd, &one, sizeof one) != sizeof one)
        hfd_log(HF_LOG_DEBUG, "postgres: the listener was kicked already");
    return in;
}

void pg_ear_done(pg_port *port)
{
    pg_listener *ear = &port->ear;
    pg_conn *c = take_conn(ear);

    if (c)
        pg_disconnect(&c->base, false);
    if (ear->epoll_fd >= 0)
        close(ear->epoll_fd);
    if (ear->kick_fd >= 0)
        close(ear->kick_fd);
    pthread_mutex_destroy(&ear->mu);
    pthread_mutex_destroy(&ear->opening);
}

void pg_ear_abandon(pg_port *port)
{
    if (port->ear.conn)
        pg_abandon(&port->ear.conn->base);
    close(port->ear.epoll_fd);
    close(port->ear.kick_fd);
}

int pg_fd(sql_port *port)
{
    return ((pg_port *)port)->ear.epoll_fd;
}

/* ---- Hearing ------------------------------------------------------------ */

typedef struct push {
    char rid[24]; /* "": perhaps any */
    uint64_t num;
    uint32_t run;
} push;

/* What is not in our form is: look. */
static push read_push(const char *text)
{
    push p = {{0}, 0, 0};
    unsigned long long num;
    unsigned run;

    if (sscanf(text, "%23s %llu %u", p.rid, &num, &run) != 3)
        return (push){{0}, 0, 0};
    p.num = num;
    p.run = run;
    return p;
}

/* Takes what has come, at most AT_ONCE.  *ret_lost: the connection, which is
 * broken and now the caller's. */
static size_t take_pushes(pg_listener *ear, push *to, pg_conn **ret_lost)
{
    size_t n = 0;
    pg_conn *c;

    *ret_lost = NULL;
    pthread_mutex_lock(&ear->mu);
    c = ear->conn;
    if (c) {
        bool good = PQconsumeInput(c->pg) != 0;
        PGnotify *note;

        while (n < AT_ONCE && (note = PQnotifies(c->pg)) != NULL) {
            to[n++] = read_push(note->extra);
            PQfreemem(note);
        }
        if (n == 0 && (!good || c->broken || !pg_stands(&c->base))) {
            epoll_ctl(ear->epoll_fd, EPOLL_CTL_DEL, PQsocket(c->pg), NULL);
            ear->conn = NULL;
            *ret_lost = c;
        }
    }
    pthread_mutex_unlock(&ear->mu);
    return n;
}

void pg_dispatch(sql_port *base)
{
    pg_port *port = (pg_port *)base;
    push pushes[AT_ONCE];
    uint64_t kicks;
    pg_conn *gone;
    size_t n;

    if (read(port->ear.kick_fd, &kicks, sizeof kicks) < 0)
        kicks = 0;
    do {
        n = take_pushes(&port->ear, pushes, &gone);
        for (size_t i = 0; i < n; i++)
            base->told(base->store, pushes[i].rid[0] ? pushes[i].rid : NULL,
                       pushes[i].num, pushes[i].run);
    } while (n > 0);
    if (gone) {
        hf_error why;
        char line[PG_LINE];

        pg_line(PQerrorMessage(gone->pg), line);
        hfd_error(&why, HF_EUNAVAIL, "postgres", 0,
                  "the listener's connection to %s was lost: %s", base->where,
                  line);
        pg_disconnect(&gone->base, true);
        base->deaf(base->store, &why);
    }
}

/* ---- Listening ---------------------------------------------------------- */

static bool is_id(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
                            "xyz0123456789-_");

    return n > 0 && n <= 24 && !text[n];
}

static int refuse_pooler(pg_port *port, hf_error *err)
{
    int code =
        hfd_error(err, HF_ENOTSUP, "postgres", 0,
                  "%s is a pooler of transactions, through which nobody can "
                  "listen: waiters look from time to time",
                  port->base.where);

    if (!atomic_exchange(&port->pooler_told, true))
        hfd_log(HF_LOG_WARN,
                "postgres: %s is a pooler of transactions, through which "
                "nobody can listen: waiters look from time to time",
                port->base.where);
    return code;
}

/* LISTEN on this connection, committed; else it is of no use. */
static int say_listen(pg_conn *c, const char *sid, hf_nsec deadline,
                      hf_error *err)
{
    sql_rows rows = {0};
    char text[80];
    sql_end end;

    snprintf(text, sizeof text, "UNLISTEN *; LISTEN \"hf_%s\"", sid);
    end = pg_say(&c->base, text, deadline, &rows, err);
    sql_rows_done(&rows);
    if (end == SQL_DONE)
        return 0;
    return err && err->code ? err->code : HF_EUNAVAIL;
}

static int open_ear(pg_port *port, const char *sid, hf_nsec deadline,
                    hf_error *err)
{
    pg_conn *c = take_conn(&port->ear);
    sql_conn *made = NULL;
    int code = 1;

    /* The one that stands, for another session; else a new one. */
    if (c) {
        code = say_listen(c, sid, deadline, err);
        if (code)
            pg_disconnect(&c->base, true);
    }
    if (code) {
        code = pg_connect(&port->base, deadline, &made, err);
        if (code)
            return code;
        c = (pg_conn *)made;
        code = atomic_load(&port->pooled) ? refuse_pooler(port, err)
                                          : say_listen(c, sid, deadline, err);
    }
    if (code == 0 && !put_conn(&port->ear, c, sid))
        code = hfd_error(err, HF_EFULL, "postgres", 0,
                         "no room for the listener's descriptor");
    if (code)
        pg_disconnect(&c->base, true);
    return code;
}

static bool hears(pg_listener *ear, const char *sid)
{
    bool is;

    pthread_mutex_lock(&ear->mu);
    is = ear->conn && strcmp(ear->sid, sid) == 0;
    pthread_mutex_unlock(&ear->mu);
    return is;
}

int pg_listen(sql_port *base, const char *sid, hf_nsec deadline,
              char ret_bell[SQL_BELL_MAX], hf_error *err)
{
    pg_port *port = (pg_port *)base;
    pg_listener *ear = &port->ear;
    hf_error why = {0};
    int code = 0;

    ret_bell[0] = '\0';
    if (!is_id(sid))
        return hfd_error(err, HF_EINVAL, "postgres", 0,
                         "a session's id is letters, digits, - and _");
    if (hears(ear, sid))
        return 0;
    pthread_mutex_lock(&ear->opening);
    if (!hears(ear, sid)) {
        if (atomic_load(&port->pooled)) {
            code = refuse_pooler(port, &why);
        } else if (hfd_now() < ear->not_before) {
            why = ear->why;
            code = why.code;
        } else {
            code = open_ear(port, sid, deadline, &why);
            ear->why = why;
            ear->failures = code ? ear->failures + 1 : 0;
            if (code) {
                int64_t ms = BACKOFF_MS
                             << (ear->failures < 6 ? ear->failures - 1 : 5);

                ear->not_before = hfd_now() + HF_MS(ms);
            }
        }
    }
    pthread_mutex_unlock(&ear->opening);
    if (code && err)
        *err = why;
    return code;
}

void pg_unlisten(sql_port *base)
{
    pg_conn *c = take_conn(&((pg_port *)base)->ear);

    if (c)
        pg_disconnect(&c->base, false);
}

/* ---- Calling ------------------------------------------------------------ */

void pg_wake(sql_conn *conn, const sql_wake *wakes, size_t n, hf_nsec deadline)
{
    char text[WAKES * 120 + 16];
    sql_rows rows = {0};
    hf_error err = {0};

    for (size_t i = 0; i < n; i += WAKES) {
        size_t len = 0;

        for (size_t k = i; k < n && k < i + WAKES; k++) {
            if (!is_id(wakes[k].sid) || !is_id(wakes[k].rid))
                continue;
            len += (size_t)snprintf(
                text + len, sizeof text - len,
                "%s pg_notify('hf_%s', '%s %llu %u')", len ? "," : "SELECT",
                wakes[k].sid, wakes[k].rid, (unsigned long long)wakes[k].num,
                wakes[k].run);
        }
        if (len > 0 && pg_say(conn, text, deadline, &rows, &err) != SQL_DONE) {
            hfd_log(HF_LOG_DEBUG, "postgres: a wake-up was not sent: %s",
                    err.text);
            break;
        }
    }
    sql_rows_done(&rows);
}
