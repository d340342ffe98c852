/* errors.c - what an error reply of the server means.
 *
 * One question: this call was answered with an error; was it done, may it be
 * tried again, and what does the user need to know?  Knows nothing of
 * connections, and of the commands only what the server says about them.
 *
 * The table is read from the top, the first row that fits counts.  NOT APPLIED
 * is said only where the server refuses before the first write: a script that
 * has written is neither killed nor refused for memory, disk, replicas or role
 * (the server lets it finish), and what it may not run is refused in the middle
 * of it, so that is UNKNOWN.  What no row knows is UNKNOWN, too: it may come
 * from the last line of a script, and a script is not rolled back.
 *
 * Up to 6.2 what a command refuses inside a script comes wrapped, "ERR Error
 * running script (call to f_...): ...: -READONLY ...": the word behind the dash
 * is the server's own, said before the first write like any other. */
#include <string.h>

#include "wire.h"

enum {
    CUT = 1,  /* the connection is of no use any more */
    TOLD = 2, /* the server's own words belong to the text */
    TEXT_MAX = 150
};

typedef struct row {
    const char *begins; /* NULL: anything */
    const char *has;    /* NULL: anything */
    hf_outcome outcome;
    int code;
    int flags;
    const char *text;
} row;

static const row rows[] = {
    {"NOSCRIPT", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server has forgotten the script"},
    {"LOADING", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is loading its data: later"},
    {"BUSY ", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is busy with a long script: later, or SCRIPT KILL"},
    {"MASTERDOWN", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, CUT,
     "the server is a replica that has lost its primary: give the address of "
     "the primary"},
    {"READONLY", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, CUT,
     "the server is a replica (READONLY): give the address of the primary"},
    {"CLUSTERDOWN", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is a Redis Cluster that is down"},
    {"TRYAGAIN", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is moving these keys to another node: later"},
    {"NOREPLICAS", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server has fewer replicas than min-replicas-to-write asks for"},
    {"MISCONF", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server cannot save to its disk and refuses writes (MISCONF): see "
     "its log"},
    {"OOM", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is out of memory (maxmemory)"},
    {"ERR max number of clients", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, CUT,
     "the server has no connection left (maxclients)"},
    {"ERR ", "Script killed by user", HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the script was killed by an operator (SCRIPT KILL): later"},
    {"MOVED", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, CUT,
     "another node of the Redis Cluster serves this now: later"},
    {"ASK ", NULL, HF_NOT_APPLIED, HF_EUNAVAIL, 0,
     "the server is moving these keys to another node: later"},
    {"CROSSSLOT", NULL, HF_NOT_APPLIED, HF_EURL, 0,
     "the server is part of a Redis Cluster: use redis+cluster:, or give a "
     "single server or primary"},
    {"NOAUTH", NULL, HF_NOT_APPLIED, HF_EAUTH, CUT,
     "the server wants a password: put it into the URL "
     "(redis://:password@host) or into a URL file"},
    {"WRONGPASS", NULL, HF_NOT_APPLIED, HF_EAUTH, CUT,
     "the server refused the user name or the password"},
    {"ERR invalid password", NULL, HF_NOT_APPLIED, HF_EAUTH, CUT,
     "the server refused the password"},
    {"ERR AUTH ", NULL, HF_NOT_APPLIED, HF_EAUTH, CUT,
     "the server has no password set, and the URL has one: take it out, or "
     "give the right server"},
    {"ERR Client sent AUTH", NULL, HF_NOT_APPLIED, HF_EAUTH, CUT,
     "the server has no password set, and the URL has one: take it out, or "
     "give the right server"},
    {"DENIED", NULL, HF_NOT_APPLIED, HF_EPERM, CUT,
     "the server is in protected mode and takes local connections alone: set "
     "a password there"},
    {"ERR The user executing the script", NULL, HF_UNKNOWN, HF_EPERM, 0,
     "the user may not run a command of the script: see ACL LOG on the server"},
    {"ERR Error running script", ": The user executing the script", HF_UNKNOWN,
     HF_EPERM, 0,
     "the user may not run a command of the script: see ACL LOG on the server"},
    {"NOPERM", "script", HF_UNKNOWN, HF_EPERM, TOLD, "not permitted"},
    {"NOPERM", NULL, HF_NOT_APPLIED, HF_EPERM, TOLD, "not permitted"},
    {"ERR DB index", NULL, HF_NOT_APPLIED, HF_EURL, CUT,
     "the server has no database of that number: see the end of the URL"},
    {"ERR invalid DB index", NULL, HF_NOT_APPLIED, HF_EURL, CUT,
     "the server has no database of that number: see the end of the URL"},
    {"ERR unknown command", NULL, HF_NOT_APPLIED, HF_EPROTO, TOLD,
     "the server lacks a command"},
    {NULL, NULL, HF_UNKNOWN, HF_EPROTO, TOLD, "the server says"},
};

/* The server's words as one line: what is not plain text becomes a '?'. */
static void copy_line(char *to, size_t room, const char *text, size_t len)
{
    size_t n = 0;

    for (; n < len && n + 1 < room; n++) {
        unsigned char c = (unsigned char)text[n];

        to[n] = c < ' ' || c == 0x7f ? '?' : text[n];
    }
    to[n] = '\0';
}

static bool begins_with(const char *line, const char *begin)
{
    return !begin || strncmp(line, begin, strlen(begin)) == 0;
}

resp redis_error_inside(const resp *reply)
{
    static const char wrapper[] = "ERR Error running script (", mark[] = ": -";
    resp inside = *reply;
    const char *at;

    if (reply->len < sizeof wrapper - 1 ||
        memcmp(reply->text, wrapper, sizeof wrapper - 1) != 0)
        return inside;
    at = memmem(reply->text, reply->len, mark, sizeof mark - 1);
    if (at) {
        inside.text = at + sizeof mark - 1;
        inside.len = (size_t)(reply->text + reply->len - inside.text);
    }
    return inside;
}

hf_outcome redis_error_of(const resp *reply, hf_error *ret, bool *ret_cut)
{
    char line[TEXT_MAX + 1];
    const row *at = rows;
    resp inside = redis_error_inside(reply);

    copy_line(line, sizeof line, inside.text, inside.len);
    while (!begins_with(line, at->begins) ||
           (at->has && !strstr(line, at->has)))
        at++;
    if (at->flags & TOLD)
        hfd_error(ret, at->code, "redis", 0, "%s: %s", at->text, line);
    else
        hfd_error(ret, at->code, "redis", 0, "%s", at->text);
    *ret_cut = at->flags & CUT;
    return at->outcome;
}
