/* errors.c - what an error of MariaDB or MySQL means.
 *
 * Two questions.  This statement failed: was it done, may it be tried again,
 * what does the user need to know?  This connection did not come about: why,
 * and what is the cure?  Knows nothing of the statements but whether they
 * write.
 *
 * NOT APPLIED is said only of numbers that are known to come before the commit:
 * each of our statements is a transaction, and these roll it back.  One that
 * was interrupted (1317) may have been in its commit, a server that goes down
 * may have finished it: unknown, and the connection goes.  A number that no row
 * knows is unknown, too, if the statement writes. */
#include <stdio.h>
#include <string.h>

#include "my.h"

enum { TOLD = 1 }; /* the server's own words belong to the text */

typedef struct row {
    unsigned number;   /* 0: any */
    const char *state; /* and this prefix of SQLSTATE, where number is 0 */
    sql_end end;
    int code;
    int flags;
    const char *text;
} row;

#define READ_ONLY                                                              \
    "the server is read-only (a replica?): give the address of the primary"

static const row rows[] = {
    {1213, "", SQL_CLASH, HF_EUNAVAIL, 0, "deadlock: again"},
    {1205, "", SQL_CLASH, HF_EUNAVAIL, 0,
     "a row or a table stayed locked for too long: see SHOW PROCESSLIST who "
     "holds it"},
    {3572, "", SQL_CLASH, HF_EUNAVAIL, 0, "the row is locked (NOWAIT)"},
    {1020, "", SQL_CLASH, HF_EUNAVAIL, 0, "the row has changed: again"},
    {1062, "", SQL_CLASH, HF_EUNAVAIL, 0, "somebody else was faster: again"},
    {1412, "", SQL_CLASH, HF_EUNAVAIL, 0, "a table was altered: again"},
    {1969, "", SQL_CLASH, HF_EUNAVAIL, 0,
     "the statement took longer than max_statement_time"},
    {3024, "", SQL_CLASH, HF_EUNAVAIL, 0,
     "the statement took longer than max_execution_time"},
    {1290, "", SQL_BROKEN, HF_EUNAVAIL, 0, READ_ONLY},
    {1792, "", SQL_BROKEN, HF_EUNAVAIL, 0, READ_ONLY},
    {1836, "", SQL_BROKEN, HF_EUNAVAIL, 0, READ_ONLY},
    {1047, "", SQL_BROKEN, HF_EUNAVAIL, TOLD,
     "the server is not ready (a Galera node out of its cluster?)"},
    {1044, "", SQL_REFUSED, HF_EPERM, TOLD,
     "not permitted (the grants are in mysql.md)"},
    {1142, "", SQL_REFUSED, HF_EPERM, TOLD,
     "not permitted (the grants are in mysql.md)"},
    {1143, "", SQL_REFUSED, HF_EPERM, TOLD,
     "not permitted (the grants are in mysql.md)"},
    {1227, "", SQL_REFUSED, HF_EPERM, TOLD, "not permitted"},
    {1146, "", SQL_REFUSED, HF_EPROTO, TOLD, "a table is missing"},
    {1049, "", SQL_REFUSED, HF_EURL, TOLD,
     "there is no such database: create it, or see the end of the URL"},
    {1046, "", SQL_REFUSED, HF_EURL, 0,
     "no database is chosen: name it at the end of the URL"},
    {1114, "", SQL_REFUSED, HF_EUNAVAIL, 0, "the server's disk is full"},
    {1021, "", SQL_REFUSED, HF_EUNAVAIL, 0, "the server's disk is full"},
    {1037, "", SQL_REFUSED, HF_EUNAVAIL, 0, "the server is out of memory"},
    {1041, "", SQL_REFUSED, HF_EUNAVAIL, 0, "the server is out of memory"},
    {1206, "", SQL_REFUSED, HF_EUNAVAIL, 0,
     "the server has no room for row locks (innodb_buffer_pool_size)"},
    {1226, "", SQL_REFUSED, HF_EUNAVAIL, TOLD,
     "the account has used up what it may"},
    {1461, "", SQL_REFUSED, HF_EUNAVAIL, 0,
     "the server keeps no more prepared statements "
     "(max_prepared_stmt_count)"},
    {1665, "", SQL_REFUSED, HF_EPROTO, 0,
     "the server logs statements: set binlog_format to ROW or MIXED"},
    {1094, "", SQL_REFUSED, HF_EINVAL, 0, "there is no such connection"},
    {1095, "", SQL_REFUSED, HF_EPERM, 0,
     "the connection belongs to another account"},
    {1243, "", SQL_REFUSED, HF_EPROTO, 0,
     "the server has forgotten a prepared statement"},
    {1615, "", SQL_REFUSED, HF_EPROTO, 0,
     "the server has forgotten a prepared statement"},
    {1317, "", SQL_LOST, HF_EUNAVAIL, 0,
     "the statement was interrupted (KILL)"},
    {1053, "", SQL_LOST, HF_EUNAVAIL, 0, "the server is going down"},
    {1927, "", SQL_LOST, HF_EUNAVAIL, 0,
     "the connection was ended by the server (KILL)"},
    {0, "08", SQL_LOST, HF_EUNAVAIL, TOLD, "the connection was lost"},
    {0, "40", SQL_CLASH, HF_EUNAVAIL, TOLD, "rolled back: again"},
    {0, "22", SQL_REFUSED, HF_EINVAL, TOLD, "the server refused a value"},
    {0, "42", SQL_REFUSED, HF_EPROTO, TOLD,
     "the tables are not ours, or the server is too old"},
    {0, "", SQL_LOST, HF_EPROTO, TOLD, "the server says"},
};

static const row *find_row(const row *at, unsigned number, const char *state)
{
    while (at->number != number &&
           (at->number || strncmp(state, at->state, strlen(at->state)) != 0))
        at++;
    return at;
}

/* One line of what people may read: up to the line's end, no odd bytes. */
void my_line(const char *text, char ret[MY_LINE])
{
    size_t n = 0;

    for (; text[n] && text[n] != '\n' && n + 1 < MY_LINE; n++) {
        unsigned char c = (unsigned char)text[n];

        ret[n] = text[n];
        if (c < ' ' || c == 0x7f)
            ret[n] = '?';
    }
    ret[n] = '\0';
}

static void fill_error(const row *at, const char *where, unsigned number,
                       const char *words, hf_error *ret)
{
    char line[MY_LINE];

    my_line(words, line);
    if (at->flags & TOLD)
        hfd_error(ret, at->code, "mysql", (int)number, "%.80s: %s: %s (%u)",
                  where, at->text, line, number);
    else
        hfd_error(ret, at->code, "mysql", (int)number, "%.80s: %s (%u)", where,
                  at->text, number);
}

sql_end my_judge(my_conn *c, unsigned number, const char *state,
                 const char *text, bool sent, bool writes, hf_error *ret)
{
    const char *where = c->base.port->where;
    const row *at;

    if (c->late || (number >= 2000 && number < 3000)) {
        char line[MY_LINE];

        c->broken = true;
        my_line(text, line);
        if (c->late)
            hfd_error(ret, HF_EUNAVAIL, "mysql", 0,
                      "no answer from %.80s in time", where);
        else
            hfd_error(ret, HF_EUNAVAIL, "mysql", (int)number,
                      "the connection to %.80s was lost: %s (%u)", where, line,
                      number);
        return sent ? SQL_LOST : SQL_BROKEN;
    }
    at = find_row(rows, number, state);
    fill_error(at, where, number, text, ret);
    if (at->end == SQL_LOST && number == 1317 && !writes)
        return SQL_CLASH;
    if (at->end == SQL_LOST && at->code == HF_EPROTO && !writes)
        return SQL_REFUSED;
    if (at->end == SQL_LOST || at->end == SQL_BROKEN)
        c->broken = true;
    return at->end == SQL_LOST && !sent ? SQL_BROKEN : at->end;
}

/* ---- Connecting --------------------------------------------------------- */

static const row dial_rows[] = {
    {1045, "", 0, HF_EAUTH, 0,
     "the server refused the user name or the password, or does not let this "
     "user in from here"},
    {1698, "", 0, HF_EAUTH, 0,
     "the server lets this user in by its socket only (unix_socket): give the "
     "user a password, or the URL a socket"},
    {1044, "", 0, HF_EPERM, TOLD,
     "the user may not use this database (the grants are in mysql.md)"},
    {1049, "", 0, HF_EURL, TOLD,
     "there is no such database: create it, or see the end of the URL"},
    {1040, "", 0, HF_EUNAVAIL, 0,
     "the server has no connection left (max_connections)"},
    {1203, "", 0, HF_EUNAVAIL, 0,
     "the account has no connection left (max_user_connections)"},
    {1226, "", 0, HF_EUNAVAIL, TOLD, "the account has used up what it may"},
    {1129, "", 0, HF_EPERM, 0,
     "the server has shut this host out after too many errors: FLUSH HOSTS "
     "there"},
    {1130, "", 0, HF_EPERM, 0,
     "the server lets nobody in from this host: create an account for it"},
    {1053, "", 0, HF_EUNAVAIL, 0, "the server is going down"},
    {1251, "", 0, HF_EAUTH, TOLD, "the server asks for another handshake"},
    {1820, "", 0, HF_EAUTH, 0, "the password has expired: change it"},
    {1862, "", 0, HF_EAUTH, 0, "the password has expired: change it"},
    {3159, "", 0, HF_EAUTH, 0, "the server wants TLS: tls=yes"},
    {2002, "", 0, HF_EUNAVAIL, TOLD, "nobody answers there"},
    {2003, "", 0, HF_EUNAVAIL, TOLD, "nobody answers there"},
    {2005, "", 0, HF_EUNAVAIL, 0, "the name cannot be resolved"},
    {2007, "", 0, HF_EPROTO, 0, "what answers there is not MariaDB or MySQL"},
    {2012, "", 0, HF_EUNAVAIL, TOLD, "the server ended the handshake"},
    {2013, "", 0, HF_EUNAVAIL, TOLD, "the server ended the handshake"},
    {2027, "", 0, HF_EPROTO, 0, "what answers there is not MariaDB or MySQL"},
    {2059, "", 0, HF_EAUTH, TOLD,
     "the server asks for a handshake that the client library lacks"},
    {2061, "", 0, HF_EAUTH, TOLD, "the handshake failed"},
    {0, "", 0, HF_EUNAVAIL, TOLD, "no connection"},
};

/* What the library says of TLS, all under one number. */
static const struct {
    const char *has, *text;
} tls_words[] = {
    {"required", "the server has no TLS: set it up there, or tls=no"},
    {"does not support", "the server has no TLS: set it up there, or tls=no"},
    {"self-signed", "the server's certificate is not of this CA: see ca_file"},
    {"self signed", "the server's certificate is not of this CA: see ca_file"},
    {"local issuer", "the server's certificate is not of this CA: see ca_file"},
    {"expired", "the server's certificate has expired: renew it on the server"},
    {"verify the first",
     "the server's certificate is not of this CA: see ca_file"},
    {"certificate verify failed",
     "the server's certificate is not of this CA: see ca_file"},
    {"Validation of SSL server certificate failed",
     "the server's certificate is for another name: use the name that it has"},
    {"o such file", "a file cannot be read: see ca_file, cert_file, key_file"},
};

static int judge_tls(const char *words, const char *where, hf_error *ret)
{
    char line[MY_LINE];

    my_line(words, line);
    for (size_t i = 0; i < sizeof tls_words / sizeof *tls_words; i++) {
        if (strstr(words, tls_words[i].has))
            return hfd_error(ret, HF_EAUTH, "mysql", 2026, "%.80s: %s (%s)",
                             where, tls_words[i].text, line);
    }
    return hfd_error(ret, HF_EAUTH, "mysql", 2026, "%.80s: TLS failed: %s",
                     where, line);
}

int my_judge_dial(my_conn *c, const char *where, hf_error *ret)
{
    unsigned number = mysql_errno(c->my);
    const char *words = mysql_error(c->my);
    const row *at;

    c->broken = true;
    if (c->late)
        return hfd_error(ret, HF_EUNAVAIL, "mysql", 0,
                         "no answer from %.80s in time", where);
    if (number == 2026)
        return judge_tls(words, where, ret);
    at = find_row(dial_rows, number, "");
    fill_error(at, where, number, words, ret);
    return at->code;
}
