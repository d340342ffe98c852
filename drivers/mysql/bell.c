/* bell.c - how a process hears that it is somebody's turn here.
 *
 * The server pushes nothing.  So one connection of the process sleeps on the
 * server, its number stands in the session's row, and whoever leaves a queue
 * ends the sleep of the next one with KILL QUERY (ring.c): directed, at once,
 * with one connection for any number of waiters, and no privilege beyond the
 * same account.
 *
 * It sleeps in GET_LOCK, for a name that a second connection of ours (the post)
 * holds: not in SLEEP, since all sleepers of a server share one mutex there,
 * and MariaDB's KILL of one of several can take seconds to get it.  Whoever
 * gets the lock knows that the post is gone, and says so by an error.
 *
 * A ring that comes while the connection is not asleep is lost.  So the
 * statement first answers a row, which the server sends at once, and then
 * sleeps: when that row has come, rings are heard.  The store is told to look
 * when a sleep has ended, for speed, and again when the next one has begun: who
 * was due before is seen by that look, who is due later rings into the sleep.
 * (MySQL has no statement of two parts: there a ring may fall into the gap, and
 * costs until the waiter's own timed look.)
 *
 * Two of us here: listen and dispatch meet on `mu`, which is never held while
 * anything is waited for; what is half read is left as it is, and the next
 * dispatch goes on with it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "my.h"

static const char two_parts[] =
    "BEGIN NOT ATOMIC SELECT 1; IF GET_LOCK('holdfast-bell-%lu', 30) = 1 THEN "
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the post is gone'; END IF; "
    "END";
static const char one_part[] = "DO /* holdfast */ SLEEP(30)";
static const char take_post[] = "SELECT GET_LOCK('holdfast-bell-%lu', 0)";

enum { INTERRUPTED = 1317 };

int my_bell_init(my_port *port, hf_error *err)
{
    my_bell *bell = &port->bell;

    pthread_mutex_init(&bell->opening, NULL);
    pthread_mutex_init(&bell->mu, NULL);
    bell->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (bell->epoll_fd < 0)
        return hfd_error(err, HF_EFULL, "mysql", errno,
                         "no descriptor to listen with: %s", strerror(errno));
    return 0;
}

/* Called with mu held, or where nobody else is. */
static my_conn *take_conn(my_bell *bell)
{
    my_conn *c = bell->conn;

    if (c)
        epoll_ctl(bell->epoll_fd, EPOLL_CTL_DEL, mysql_get_socket(c->my), NULL);
    bell->conn = NULL;
    bell->address[0] = '\0';
    return c;
}

/* ---- The answer of a sleep, part by part -------------------------------- */

typedef enum heard {
    NOTHING, /* more is to come */
    BEGUN,   /* it sleeps from now on */
    ENDED,   /* rung, or by itself */
    FAILED
} heard;

/* The head of the answer, or all of it where there is one part. */
static heard read_head(my_bell *bell, int came)
{
    MYSQL *my = bell->conn->my;
    my_bool failed = 1;

    bell->waits = bell->waits ? mysql_read_query_result_cont(&failed, my, came)
                              : mysql_read_query_result_start(&failed, my);
    if (bell->waits)
        return NOTHING;
    if (failed)
        return mysql_errno(my) == INTERRUPTED ? ENDED : FAILED;
    if (mysql_field_count(my) == 0)
        return ENDED;
    bell->state = MY_ROWS;
    return NOTHING;
}

static heard read_row(my_bell *bell, int came)
{
    MYSQL *my = bell->conn->my;

    bell->waits = bell->waits ? mysql_store_result_cont(&bell->rows, my, came)
                              : mysql_store_result_start(&bell->rows, my);
    if (bell->waits)
        return NOTHING;
    if (!bell->rows)
        return mysql_errno(my) == INTERRUPTED ? ENDED : FAILED;
    mysql_free_result(bell->rows);
    bell->rows = NULL;
    if (!mysql_more_results(my))
        return ENDED;
    bell->state = MY_ASLEEP;
    return BEGUN;
}

static heard read_end(my_bell *bell, int came)
{
    MYSQL *my = bell->conn->my;
    int code = 1;

    bell->waits = bell->waits ? mysql_next_result_cont(&code, my, came)
                              : mysql_next_result_start(&code, my);
    if (bell->waits)
        return NOTHING;
    if (code > 0 && mysql_errno(my) != INTERRUPTED)
        return FAILED;
    return code == 0 && mysql_more_results(my) ? NOTHING : ENDED;
}

/* As far as it goes without waiting; `came` is for what is half read. */
static heard read_on(my_bell *bell, int came)
{
    static heard (*const readers[])(my_bell *, int) = {
        [MY_HEAD] = read_head, [MY_ROWS] = read_row, [MY_ASLEEP] = read_end};
    heard heard_now = NOTHING;
    my_quiet quiet;

    my_quiet_begin(&quiet, bell->conn->tls);
    do
        heard_now = readers[bell->state](bell, came);
    while (heard_now == NOTHING && !bell->waits);
    my_quiet_end(&quiet);
    return heard_now;
}

/* Its packet is a few bytes: a socket that does not take them is not worth
 * waiting for. */
static bool send_sleep(my_bell *bell)
{
    my_conn *c = bell->conn;
    char text[200];
    my_quiet quiet;
    int failed = 1;

    if (c->mariadb)
        snprintf(text, sizeof text, two_parts, mysql_thread_id(c->my));
    else
        memcpy(text, one_part, sizeof one_part);
    bell->state = MY_HEAD;
    bell->waits = 0;
    c->late = false;
    my_quiet_begin(&quiet, c->tls);
    MY_DRIVE(c, 0, mysql_send_query_start(&failed, c->my, text, strlen(text)),
             mysql_send_query_cont(&failed, c->my, status));
    my_quiet_end(&quiet);
    return !failed;
}

/* ---- Ending ------------------------------------------------------------- */

/* A call of the library that is half done is ended first: told that time is
 * up, it unwinds. */
static void end_conn(my_bell *bell, my_conn *c)
{
    my_conn *post = bell->post;

    bell->post = NULL;
    if (post)
        my_disconnect(&post->base, true);
    if (!c)
        return;
    bell->conn = c;
    if (bell->waits)
        (void)read_on(bell, MYSQL_WAIT_TIMEOUT);
    bell->waits = 0;
    bell->conn = NULL;
    my_disconnect(&c->base, true);
}

void my_unlisten(sql_port *base)
{
    my_bell *bell = &((my_port *)base)->bell;
    my_conn *c;

    pthread_mutex_lock(&bell->opening);
    pthread_mutex_lock(&bell->mu);
    c = take_conn(bell);
    end_conn(bell, c);
    pthread_mutex_unlock(&bell->mu);
    pthread_mutex_unlock(&bell->opening);
}

void my_bell_done(my_port *port)
{
    my_bell *bell = &port->bell;

    end_conn(bell, take_conn(bell));
    if (bell->epoll_fd >= 0)
        close(bell->epoll_fd);
    pthread_mutex_destroy(&bell->opening);
    pthread_mutex_destroy(&bell->mu);
}

void my_bell_abandon(my_port *port)
{
    if (port->bell.conn)
        my_abandon(&port->bell.conn->base);
    if (port->bell.post)
        my_abandon(&port->bell.post->base);
    close(port->bell.epoll_fd);
}

/* ---- Listening ---------------------------------------------------------- */

/* Send the first sleep and wait until it has begun. */
static int fall_asleep(my_bell *bell, my_conn *c, hf_nsec deadline,
                       hf_error *err)
{
    heard heard_now = NOTHING;
    int came = 0;

    bell->conn = c;
    if (send_sleep(bell)) {
        while (c->mariadb && heard_now == NOTHING) {
            heard_now = read_on(bell, came);
            if (heard_now == NOTHING)
                came = my_wait(c, bell->waits, deadline);
        }
    } else {
        heard_now = FAILED;
    }
    if (heard_now == FAILED) {
        my_judge(c, mysql_errno(c->my), mysql_sqlstate(c->my),
                 mysql_error(c->my), true, true, err);
        return HF_EUNAVAIL;
    }
    return 0;
}

/* The connection that holds the name for which the bell sleeps. */
static int open_post(my_port *port, unsigned long number, hf_nsec deadline,
                     my_bell *fresh, hf_error *err)
{
    sql_rows rows = {0};
    sql_conn *conn = NULL;
    char text[80];
    int code = my_connect(&port->base, deadline, &conn, err);

    if (code)
        return code;
    fresh->post = (my_conn *)conn;
    snprintf(text, sizeof text, take_post, number);
    if (my_say(conn, text, deadline, &rows, err) != SQL_DONE)
        code = err->code;
    else if (sql_number(&rows, 0, 0, 0) != 1)
        code = hfd_error(err, HF_EUNAVAIL, "mysql", 0,
                         "the name of the bell is held by another");
    sql_rows_done(&rows);
    return code;
}

static int open_bell(my_port *port, hf_nsec deadline, my_bell *fresh,
                     hf_error *err)
{
    sql_rows rows = {0};
    sql_conn *conn = NULL;
    my_conn *c;
    int code = my_connect(&port->base, deadline, &conn, err);

    if (code)
        return code;
    c = (my_conn *)conn;
    if (c->mariadb && my_say(conn, "SET SESSION max_statement_time = 0",
                             deadline, &rows, err) != SQL_DONE)
        code = err->code;
    sql_rows_done(&rows);
    if (code == 0)
        code = my_server_start(c, deadline, err);
    snprintf(fresh->address, SQL_BELL_MAX, "%lu@%lld", mysql_thread_id(c->my),
             (long long)c->start);
    if (code == 0 && c->mariadb)
        code = open_post(port, mysql_thread_id(c->my), deadline, fresh, err);
    if (code == 0)
        code = fall_asleep(fresh, c, deadline, err);
    fresh->conn = c;
    if (code)
        end_conn(fresh, c);
    return code;
}

static hf_nsec back_off(unsigned failures)
{
    hf_nsec most = HF_MS(200) << (failures < 5 ? failures : 5);
    uint32_t chance;

    hfd_random(&chance, sizeof chance);
    return most / 2 + (hf_nsec)(chance % (uint32_t)(most / 2000)) * 1000;
}

/* Called with `opening` held.  It is made on the side: nobody waits for mu
 * while it connects. */
static int make_bell(my_port *port, hf_nsec deadline, hf_error *err)
{
    my_bell *bell = &port->bell, fresh = {.epoll_fd = -1};
    struct epoll_event event = {.events = EPOLLIN};
    int code;

    if (hfd_now() < bell->not_before) {
        *err = bell->why;
        return bell->why.code;
    }
    code = open_bell(port, deadline, &fresh, err);
    if (code == 0 && epoll_ctl(bell->epoll_fd, EPOLL_CTL_ADD,
                               mysql_get_socket(fresh.conn->my), &event) != 0) {
        code = hfd_error(err, HF_EFULL, "mysql", errno, "no room to listen: %s",
                         strerror(errno));
        end_conn(&fresh, fresh.conn);
    }
    if (code) {
        bell->why = *err;
        bell->not_before = hfd_now() + back_off(bell->failures++);
        return code;
    }
    bell->failures = 0;
    pthread_mutex_lock(&bell->mu);
    bell->conn = fresh.conn;
    bell->post = fresh.post;
    bell->state = fresh.state;
    bell->waits = fresh.waits;
    memcpy(bell->address, fresh.address, sizeof fresh.address);
    pthread_mutex_unlock(&bell->mu);
    return 0;
}

static bool copy_address(my_bell *bell, char ret[SQL_BELL_MAX])
{
    pthread_mutex_lock(&bell->mu);
    memcpy(ret, bell->address, SQL_BELL_MAX);
    pthread_mutex_unlock(&bell->mu);
    return ret[0] != '\0';
}

int my_listen(sql_port *base, const char *sid, hf_nsec deadline,
              char ret_bell[SQL_BELL_MAX], hf_error *err)
{
    my_port *port = (my_port *)base;
    hf_error why = {0};
    int code = 0;

    (void)sid;
    if (copy_address(&port->bell, ret_bell))
        return 0;
    pthread_mutex_lock(&port->bell.opening);
    if (!copy_address(&port->bell, ret_bell))
        code = make_bell(port, deadline, &why);
    pthread_mutex_unlock(&port->bell.opening);
    if (code == 0)
        copy_address(&port->bell, ret_bell);
    else if (err)
        *err = why;
    return code;
}

/* ---- Hearing ------------------------------------------------------------ */

int my_fd(sql_port *base)
{
    return ((my_port *)base)->bell.epoll_fd;
}

/* Called with mu held. */
static heard hear(my_bell *bell, hf_error *why)
{
    my_conn *c = bell->conn;
    heard heard_now = read_on(bell, MYSQL_WAIT_READ);

    if (heard_now == ENDED && !send_sleep(bell))
        heard_now = FAILED;
    if (heard_now == FAILED)
        my_judge(c, mysql_errno(c->my), mysql_sqlstate(c->my),
                 mysql_error(c->my), true, true, why);
    return heard_now;
}

void my_dispatch(sql_port *base)
{
    my_bell *bell = &((my_port *)base)->bell;
    struct epoll_event event;
    hf_error why = {0};
    heard heard_now = NOTHING;

    pthread_mutex_lock(&bell->mu);
    if (bell->conn && epoll_wait(bell->epoll_fd, &event, 1, 0) > 0)
        heard_now = hear(bell, &why);
    if (heard_now == FAILED)
        end_conn(bell, take_conn(bell));
    pthread_mutex_unlock(&bell->mu);
    if (heard_now == FAILED)
        base->deaf(base->store, &why);
    if (heard_now != NOTHING)
        base->told(base->store, NULL, 0, 0);
}
