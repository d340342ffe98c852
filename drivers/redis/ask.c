/* ask.c - one question to one server, on this thread, and its answer.
 *
 * Answers: what does that server say, if it can be reached in time?  For
 * questions about who serves, which are put to servers that we keep no
 * connection to.  Knows nothing of the wire or of what is asked; the answer is
 * checked to be whole, not to be true.
 *
 * Nothing is written by a question, so a reply that is lost loses nothing, and
 * two may ask at once.  Paused in between: the answer is old, and whoever uses
 * it finds that out by talking to the server it named.  The password is
 * overwritten after it went out. */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "wire.h"

static int no_memory(hf_error *err)
{
    return hfd_error(err, HF_ENOMEM, "redis", ENOMEM, "no memory to ask with");
}

static int no_answer(const hf__address *a, hf_error *err)
{
    return hfd_error(err, HF_EUNAVAIL, "redis", ETIMEDOUT,
                     "%s:%u: no answer in time", a->host, a->port);
}

static int send_all(hf__link *link, const hf__address *a, hf__buf *out,
                    hf_nsec deadline, hf_error *err)
{
    struct pollfd room = {.fd = hf__link_fd(link), .events = POLLOUT};

    while (hf__buf_len(out) > 0) {
        ssize_t sent =
            hf__link_send(link, out->data + out->start, hf__buf_len(out), err);

        if (sent < 0)
            return 0; /* its last word may be in the socket */
        hf__buf_eat(out, (size_t)sent);
        if (sent == 0 && hfd_now() >= deadline)
            return no_answer(a, err);
        if (sent == 0)
            poll(&room, 1, 100);
    }
    return 0;
}

/* One whole reply at the front of *in. */
static int hear_one(hf__link *link, const hf__address *a, hf__buf *in,
                    hf_nsec deadline, hf_error *err)
{
    for (;;) {
        long size = hf__buf_len(in) > 0
                        ? resp_size(in->data + in->start, hf__buf_len(in))
                        : 0;
        hf_error why = {0};
        ssize_t got;
        char *at;

        if (size > 0)
            return 0;
        if (size < 0)
            return hfd_error(err, HF_EPROTO, "redis", 0,
                             "%s:%u: does not speak Redis's protocol: another "
                             "service, or a TLS port?",
                             a->host, a->port);
        at = hf__buf_room(in, 4096);
        if (!at)
            return no_memory(err);
        got = hf__link_recv(link, at, 4096, deadline, -1, &why);
        if (got < 0)
            return hfd_error(err, HF_EUNAVAIL, "redis", why.native,
                             "%s:%u: the connection ended before the answer "
                             "(%s)",
                             a->host, a->port, why.text);
        if (got == 0 && hfd_now() >= deadline)
            return no_answer(a, err);
        in->end += (size_t)got;
    }
}

/* The answer to AUTH. */
static int check_welcome(const hf__address *a, hf__buf *in, hf_error *err)
{
    const char *at = in->data + in->start;
    long size = resp_size(at, hf__buf_len(in));
    resp reply = resp_at(at);
    hf_error said = {0};
    bool cut;

    if (reply.type == RESP_ERROR) {
        redis_error_of(&reply, &said, &cut);
        return hfd_error(err, said.code, "redis", 0, "%s:%u: %s", a->host,
                         a->port, said.text);
    }
    hf__buf_eat(in, (size_t)size);
    return 0;
}

static int converse(const redis_asked *whom, hf__link *link,
                    const hf__buf *question, hf__buf *in, hf_nsec deadline,
                    hf_error *err)
{
    bool known = whom->password && whom->password[0];
    bool named = whom->user && whom->user[0];
    hf__buf out = {0};
    int code;

    if (known) {
        resp_command(&out, named ? 3 : 2);
        resp_text(&out, "AUTH");
        if (named)
            resp_text(&out, whom->user);
        resp_text(&out, whom->password);
    }
    hf__buf_add(&out, question->data + question->start, hf__buf_len(question));
    code = out.failed ? no_memory(err)
                      : send_all(link, whom->address, &out, deadline, err);
    if (out.data)
        explicit_bzero(out.data, out.room);
    hf__buf_done(&out);
    if (code == 0 && known) {
        code = hear_one(link, whom->address, in, deadline, err);
        if (code == 0)
            code = check_welcome(whom->address, in, err);
    }
    if (code == 0)
        code = hear_one(link, whom->address, in, deadline, err);
    return code;
}

int redis_ask(const redis_asked *whom, const hf__buf *question, hf__buf *ret,
              hf_nsec deadline, hf_error *err)
{
    hf__link *link = NULL;
    int code;

    if (question->failed)
        return no_memory(err);
    code = hf__dial(&link, whom->address, 1, 0, NULL, whom->tls, deadline, err);
    if (code != 0)
        return code;
    code = converse(whom, link, question, ret, deadline, err);
    hf__link_close(link, false);
    return code;
}
