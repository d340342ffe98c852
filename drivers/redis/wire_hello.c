/* wire_hello.c - the handshake: is this the server that we want?
 *
 * Answers: who is there, does it know us, may we keep locks in it?  AUTH,
 * SELECT, CLIENT SETNAME, PING, ROLE and INFO server go out together, their
 * replies are judged in order, and the first that is wrong decides.  PING is
 * there because a server that is loading refuses it and answers the others.
 * Knows nothing of calls; nothing that could be lost is sent.
 *
 * A replica is refused here: it would forget, or refuse to write.  A cluster is
 * refused, too.  The password is written into the command and nowhere else; the
 * server's words are told, and it does not repeat passwords.  Blocks until the
 * deadline, on a thread that may. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "info.h"
#include "wire_inside.h"

typedef enum step {
    STEP_AUTH,
    STEP_SELECT,
    STEP_NAME,
    STEP_PING,
    STEP_ROLE,
    STEP_INFO,
    STEPS
} step;

typedef struct hello {
    hf__link *link;
    hf_nsec begun, deadline;
    char where[REDIS_WHERE];
    step steps[STEPS];
    unsigned count, answered;
    redis_met met;
    hf__buf in;
} hello;

/* ---- What is asked ---- */

static void add_step(hello *h, step s, hf__buf *out, unsigned words,
                     const char *command)
{
    h->steps[h->count++] = s;
    resp_command(out, words);
    resp_text(out, command);
}

static void write_hello(const redis_wire *wire, hello *h, hf__buf *out)
{
    if (wire->password[0]) {
        add_step(h, STEP_AUTH, out, wire->user[0] ? 3 : 2, "AUTH");
        if (wire->user[0])
            resp_text(out, wire->user);
        resp_text(out, wire->password);
    }
    if (wire->database != 0) {
        add_step(h, STEP_SELECT, out, 2, "SELECT");
        resp_number(out, wire->database);
    }
    if (wire->client_name[0]) {
        add_step(h, STEP_NAME, out, 3, "CLIENT");
        resp_text(out, "SETNAME");
        resp_text(out, wire->client_name);
    }
    add_step(h, STEP_PING, out, 1, "PING");
    add_step(h, STEP_ROLE, out, 1, "ROLE");
    add_step(h, STEP_INFO, out, 2, "INFO");
    resp_text(out, "server");
}

/* ---- What is answered ---- */

static int wrong(const hello *h, hf_error *err, int code, const char *text)
{
    return hfd_error(err, code, "redis", 0, "%s: %s", h->where, text);
}

static int check_info(hello *h, const resp *info, hf_error *err)
{
    if (info->type != RESP_STRING)
        return wrong(h, err, HF_EPROTO, "INFO was not answered by a text");
    if (!redis_met_info(&h->met, info))
        return wrong(h, err, HF_EPROTO,
                     "INFO has no redis_version: not a Redis server");
    return 0;
}

/* Of a server that the URL names. */
static int judge_named(hello *h, hf_error *err)
{
    if (strcmp(h->met.role, "slave") == 0)
        return hfd_error(err, HF_EUNAVAIL, "redis", 0,
                         "%s: the server is a replica of '%s': give the "
                         "address of the primary",
                         h->where, h->met.of);
    if (strcmp(h->met.role, "sentinel") == 0)
        return wrong(h, err, HF_EURL,
                     "the server is a Sentinel: give the address of the "
                     "primary, or redis+sentinel: with the primary's name");
    if (strcmp(h->met.role, "master") != 0)
        return wrong(h, err, HF_EPROTO,
                     "ROLE was answered by something unknown");
    if (h->met.cluster)
        return wrong(h, err, HF_EURL,
                     "the server is part of a Redis Cluster: use "
                     "redis+cluster:, or give a single server or primary");
    return 0;
}

static int check_reply(hello *h, const resp *reply, hf_error *err)
{
    step s = h->steps[h->answered];
    hf_error said = {0};
    bool cut;

    if (reply->type == RESP_ERROR) {
        redis_error_of(reply, &said, &cut);
        /* The name is only for the operator's eyes. */
        if (s == STEP_NAME && (said.code == HF_EPERM || said.code == HF_EPROTO))
            return 0;
        return wrong(h, err, said.code, said.text);
    }
    if (s == STEP_ROLE) {
        redis_met_role(&h->met, reply);
        return 0;
    }
    if (s == STEP_INFO)
        return check_info(h, reply, err);
    if (!resp_is(reply, s == STEP_PING ? "PONG" : "OK"))
        return wrong(h, err, HF_EPROTO, "not the answers of a Redis server");
    return 0;
}

/* Judge what has come; *ret_eaten: of it so much was whole. */
static int check_replies(hello *h, hf_error *err)
{
    while (h->answered < h->count && hf__buf_len(&h->in) > 0) {
        const char *at = h->in.data + h->in.start;
        long size = resp_size(at, hf__buf_len(&h->in));
        resp reply;
        int code;

        if (size == 0)
            return 0;
        if (size < 0)
            return wrong(h, err, HF_EPROTO,
                         "does not speak Redis's protocol: another service, "
                         "or a TLS port (rediss:)?");
        reply = resp_at(at);
        code = check_reply(h, &reply, err);
        if (code != 0)
            return code;
        h->answered++;
        hf__buf_eat(&h->in, (size_t)size);
    }
    if (h->answered == h->count && hf__buf_len(&h->in) > 0)
        return wrong(h, err, HF_EPROTO, "answers that nobody asked for");
    return 0;
}

/* ---- The conversation ---- */

static int no_answer(const hello *h, hf_error *err)
{
    return hfd_error(err, HF_EUNAVAIL, "redis", ETIMEDOUT,
                     "%s: no answer to the handshake within %lld ms", h->where,
                     (long long)((hfd_now() - h->begun) / HF_MS(1)));
}

static int send_hello(hello *h, hf__buf *out, hf_error *err)
{
    struct pollfd room = {.fd = hf__link_fd(h->link), .events = POLLOUT};

    if (out->failed)
        return hfd_error(err, HF_ENOMEM, "redis", ENOMEM,
                         "no memory for a handshake");
    while (hf__buf_len(out) > 0) {
        ssize_t sent = hf__link_send(h->link, out->data + out->start,
                                     hf__buf_len(out), err);

        /* Its last word may be in the socket: reading finds it. */
        if (sent < 0)
            return 0;
        hf__buf_eat(out, (size_t)sent);
        if (sent == 0 && hfd_now() >= h->deadline)
            return no_answer(h, err);
        if (sent == 0)
            poll(&room, 1, 100);
    }
    return 0;
}

static int hear_hello(hello *h, hf_error *err)
{
    hf_error why = {0};

    while (h->answered < h->count) {
        char *at = hf__buf_room(&h->in, 4096);
        ssize_t got;
        int code;

        if (!at)
            return hfd_error(err, HF_ENOMEM, "redis", ENOMEM,
                             "no memory for a handshake");
        got = hf__link_recv(h->link, at, 4096, h->deadline, -1, &why);
        if (got < 0)
            return hfd_error(err, HF_EUNAVAIL, "redis", why.native,
                             "%s: the connection ended in the handshake (%s): "
                             "is it a TLS port (rediss:)?",
                             h->where, why.text);
        if (got == 0 && hfd_now() >= h->deadline)
            return no_answer(h, err);
        h->in.end += (size_t)got;
        code = check_replies(h, err);
        if (code != 0)
            return code;
    }
    return 0;
}

static int shake_hands(redis_wire *wire, hello *h, hf_error *err)
{
    hf__buf out = {0};
    int code;

    write_hello(wire, h, &out);
    code = send_hello(h, &out, err);
    if (code == 0)
        code = hear_hello(h, err);
    if (out.data)
        explicit_bzero(out.data, out.room); /* the password was in it */
    hf__buf_done(&out);
    hf__buf_done(&h->in);
    return code;
}

static void name_address(const hf__address *address, char where[REDIS_WHERE])
{
    if (address->path)
        snprintf(where, REDIS_WHERE, "%s", address->path);
    else
        snprintf(where, REDIS_WHERE, "%.70s:%u", address->host, address->port);
}

/* A handshake with whom `link` leads to, until the deadline; the link ends if
 * it is not whom we want. */
static int meet(redis_wire *wire, hello *h, const hf__address *address,
                hf_nsec deadline, hf_error *err)
{
    const redis_finder *finder = wire->finder;
    int code;

    h->begun = hfd_now();
    h->deadline = deadline;
    name_address(address, h->where);
    h->met.where = h->where;
    code = shake_hands(wire, h, err);
    if (code == 0)
        code = finder ? finder->judge(finder->ctx, &h->met, err)
                      : judge_named(h, err);
    if (code != 0)
        hf__link_close(h->link, false);
    return code;
}

/* Each address has a fair share of the time, as in hf__dial; one that answers
 * and is not what we want (a replica) is passed over like a dead one. */
static int dial_named(redis_wire *wire, hello *h, hf_nsec deadline,
                      hf_error *err)
{
    size_t n = wire->address_count, which, tried = 0;
    int code;

    redis_lock(wire);
    which = wire->which;
    redis_unlock(wire);
    do {
        hf_nsec now;

        memset(h, 0, sizeof *h);
        code = hf__dial(&h->link, wire->addresses, n, which, &which, wire->tls,
                        deadline, err);
        if (code != 0)
            return code;
        now = hfd_now();
        code = meet(wire, h, &wire->addresses[which],
                    now + (deadline - now) / (hf_nsec)(n - tried), err);
        if (code != 0)
            which = (which + 1) % n;
    } while (code != 0 && ++tried < n);
    if (code != 0)
        return code;
    redis_lock(wire);
    wire->which = which;
    redis_unlock(wire);
    return 0;
}

/* Half of the time is for finding out whom to dial. */
static int dial_found(redis_wire *wire, hello *h, hf_nsec deadline,
                      hf_error *err)
{
    const redis_finder *finder = wire->finder;
    hf_nsec now = hfd_now();
    hf__address address = {0};
    redis_found found = {0};
    hf_error why = {0};
    int code;

    memset(h, 0, sizeof *h);
    code = finder->find(finder->ctx, &found, now + (deadline - now) / 2, err);
    if (code != 0)
        return code;
    address.host = found.host;
    address.port = found.port;
    code = hf__dial(&h->link, &address, 1, 0, NULL, wire->tls, deadline, &why);
    if (code != 0)
        return hfd_error(err, code, "redis", why.native,
                         "the server to ask is %s:%u now: %s", found.host,
                         found.port, why.text);
    return meet(wire, h, &address, deadline, err);
}

int redis_dial(redis_conn **ret, redis_wire *wire, bool push, hf_nsec deadline,
               hf_error *err)
{
    redis_conn *conn = NULL;
    unsigned find;
    hello h;
    int code;

    redis_lock(wire);
    find = ++wire->finds;
    redis_unlock(wire);
    code = wire->finder ? dial_found(wire, &h, deadline, err)
                        : dial_named(wire, &h, deadline, err);
    if (code == 0)
        code = redis_conn_new(&conn, wire, h.link, push, err);
    if (code != 0)
        return code;
    redis_lock(wire);
    conn->server = h.met.server;
    conn->find = find;
    memcpy(conn->where, h.where, sizeof h.where);
    redis_unlock(wire);
    code = redis_conn_settle(conn, err);
    if (code != 0) {
        redis_conn_drop(conn);
        return code;
    }
    *ret = conn;
    return 0;
}
