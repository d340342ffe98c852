/* bell.c - how a process hears that it is somebody's turn here.
 *
 * The server pushes nothing.  So one connection of the process sleeps on the
 * server (DO SLEEP), its number stands in the session's row, and whoever leaves
 * a queue ends the sleep of the next one with KILL QUERY (ring.c): directed, at
 * once, with one connection for any number of waiters, and no privilege beyond
 * the same account.
 *
 * A ring that comes while the connection is not asleep is lost.  That is the
 * time between the end of one sleep and the beginning of the next, a fraction
 * of a millisecond.  The next sleep is sent before anybody is told to look, so
 * whoever was due before is seen by that look, and who is due later rings into
 * the new sleep; but for the one that falls into the gap itself, which costs
 * until the waiter's own timed look.  A sleep that ended by itself is told like
 * a ring, for the same reason.
 *
 * Two of us here: listen and dispatch meet on `mu`, which is never held while
 * anything is waited for; the read that is not finished is left as it is, and
 * the next dispatch goes on with it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "my.h"

/* A client that is gone is noticed by a sleeping server within seconds. */
static const char sleep_text[] = "DO /* holdfast */ SLEEP(30)";

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

/* What is left of a call of the library is ended first: the late connection
 * unwinds it. */
static void end_conn(my_bell *bell, my_conn *c)
{
    my_bool failed;

    if (!c)
        return;
    if (bell->waits)
        mysql_read_query_result_cont(&failed, c->my, MYSQL_WAIT_TIMEOUT);
    bell->waits = 0;
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
    close(port->bell.epoll_fd);
}

/* ---- Listening ---------------------------------------------------------- */

/* Its packet is a few bytes: a socket that does not take them is not worth
 * waiting for. */
static bool send_sleep(my_conn *c)
{
    my_quiet quiet;
    int failed = 1;

    c->late = false;
    my_quiet_begin(&quiet, c->tls);
    MY_DRIVE(c, 0,
             mysql_send_query_start(&failed, c->my, sleep_text,
                                    sizeof sleep_text - 1),
             mysql_send_query_cont(&failed, c->my, status));
    my_quiet_end(&quiet);
    return !failed;
}

static int open_bell(my_port *port, hf_nsec deadline, my_conn **ret,
                     char address[SQL_BELL_MAX], hf_error *err)
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
    if (code == 0)
        code = my_server_start(c, deadline, err);
    sql_rows_done(&rows);
    snprintf(address, SQL_BELL_MAX, "%lu@%lld", mysql_thread_id(c->my),
             (long long)c->start);
    if (code == 0 && !send_sleep(c))
        code = hfd_error(err, HF_EUNAVAIL, "mysql", 0,
                         "%.80s: the connection that listens was lost",
                         port->base.where);
    if (code)
        my_disconnect(conn, true);
    else
        *ret = c;
    return code;
}

static hf_nsec back_off(unsigned failures)
{
    hf_nsec most = HF_MS(200) << (failures < 5 ? failures : 5);
    uint32_t chance;

    hfd_random(&chance, sizeof chance);
    return most / 2 + (hf_nsec)(chance % (uint32_t)(most / 2000)) * 1000;
}

/* Called with `opening` held. */
static int make_bell(my_port *port, hf_nsec deadline, hf_error *err)
{
    my_bell *bell = &port->bell;
    struct epoll_event event = {.events = EPOLLIN};
    char address[SQL_BELL_MAX];
    my_conn *c = NULL;
    int code;

    if (hfd_now() < bell->not_before) {
        *err = bell->why;
        return bell->why.code;
    }
    code = open_bell(port, deadline, &c, address, err);
    if (code == 0 && epoll_ctl(bell->epoll_fd, EPOLL_CTL_ADD,
                               mysql_get_socket(c->my), &event) != 0) {
        code = hfd_error(err, HF_EFULL, "mysql", errno, "no room to listen: %s",
                         strerror(errno));
        my_disconnect(&c->base, true);
    }
    if (code) {
        bell->why = *err;
        bell->not_before = hfd_now() + back_off(bell->failures++);
        return code;
    }
    bell->failures = 0;
    pthread_mutex_lock(&bell->mu);
    bell->conn = c;
    bell->waits = 0;
    memcpy(bell->address, address, sizeof address);
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

typedef enum heard { NOTHING, RUNG, LOST } heard;

/* Read as much of the answer as is there; called with mu held. */
static heard read_end(my_bell *bell, hf_error *why)
{
    my_conn *c = bell->conn;
    my_bool failed = 1;
    unsigned number;
    my_quiet quiet;

    my_quiet_begin(&quiet, c->tls);
    if (bell->waits)
        bell->waits =
            mysql_read_query_result_cont(&failed, c->my, MYSQL_WAIT_READ);
    else
        bell->waits = mysql_read_query_result_start(&failed, c->my);
    my_quiet_end(&quiet);
    if (bell->waits)
        return NOTHING;
    number = failed ? mysql_errno(c->my) : 0;
    if (failed && number != 1317) {
        my_judge(c, number, mysql_sqlstate(c->my), mysql_error(c->my), true,
                 true, why);
        return LOST;
    }
    if (!send_sleep(c)) {
        hfd_error(why, HF_EUNAVAIL, "mysql", 0,
                  "%.80s: the connection that listens was lost",
                  c->base.port->where);
        return LOST;
    }
    return RUNG;
}

void my_dispatch(sql_port *base)
{
    my_bell *bell = &((my_port *)base)->bell;
    struct epoll_event event;
    hf_error why = {0};
    heard came = NOTHING;

    pthread_mutex_lock(&bell->mu);
    if (bell->conn && epoll_wait(bell->epoll_fd, &event, 1, 0) > 0)
        came = read_end(bell, &why);
    if (came == LOST)
        end_conn(bell, take_conn(bell));
    pthread_mutex_unlock(&bell->mu);
    if (came == LOST)
        base->deaf(base->store, &why);
    if (came != NOTHING)
        base->told(base->store, NULL, 0, 0);
}
