/* errors.c - what an error of PostgreSQL means.
 *
 * Two questions.  This statement was refused: was it done, may it be tried
 * again, what does the user need to know?  This connection did not come about:
 * why, and what is the cure?  Knows nothing of the statements.
 *
 * Answers go by SQLSTATE, which is not translated; the tables are read from
 * the top, a prefix is enough, the first row counts.  An ERROR has rolled its
 * transaction back, and each of our statements is one: not applied.  FATAL and
 * PANIC end the connection, perhaps after the commit: unknown, whatever else is
 * said.  40003 and class 08 say themselves that nobody knows.  A statement that
 * was cancelled (57014) had not committed: a cancellation behind the commit is
 * told as a warning, and the statement succeeds (pg_is_unreplicated). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "postgres.h"

typedef struct row {
    const char *state; /* a prefix of SQLSTATE */
    sql_end end;       /* of a statement */
    int code;
    bool told; /* the server's own words belong to the text */
    const char *text;
} row;

static const row rows[] = {
    {"40001", SQL_CLASH, HF_EUNAVAIL, false,
     "the server could not bring transactions in line: again"},
    {"40P01", SQL_CLASH, HF_EUNAVAIL, false, "deadlock: again"},
    {"55P03", SQL_CLASH, HF_EUNAVAIL, false,
     "a row stayed locked for too long: see pg_stat_activity who holds it"},
    {"57014", SQL_CLASH, HF_EUNAVAIL, false,
     "the statement was cancelled, or took longer than statement_timeout"},
    {"23505", SQL_CLASH, HF_EUNAVAIL, false, "somebody else was faster: again"},
    {"40003", SQL_LOST, HF_EUNAVAIL, true, "done or not, nobody can say"},
    {"40", SQL_CLASH, HF_EUNAVAIL, true, "rolled back: again"},
    {"08P01", SQL_LOST, HF_EUNAVAIL, true, "the server or a pooler refused"},
    {"08", SQL_LOST, HF_EUNAVAIL, true, "the connection was lost"},
    {"25006", SQL_BROKEN, HF_EUNAVAIL, false,
     "the server is read-only, a standby: give the address of the primary"},
    {"28P01", SQL_REFUSED, HF_EAUTH, false,
     "the server refused the user name or the password"},
    {"28", SQL_REFUSED, HF_EAUTH, true,
     "the server does not let this user in (see its pg_hba.conf)"},
    {"3D000", SQL_REFUSED, HF_EURL, true,
     "there is no such database: create it (createdb), or see the end of the "
     "URL"},
    {"3F000", SQL_REFUSED, HF_EPROTO, true,
     "there is no such schema: create it, or see option schema"},
    {"42501", SQL_REFUSED, HF_EPERM, true,
     "not permitted (the grants are in postgres.md)"},
    {"42P01", SQL_REFUSED, HF_EPROTO, true, "a table is missing"},
    {"53100", SQL_REFUSED, HF_EUNAVAIL, false, "the server's disk is full"},
    {"53200", SQL_REFUSED, HF_EUNAVAIL, false, "the server is out of memory"},
    {"53300", SQL_REFUSED, HF_EUNAVAIL, false,
     "the server has no connection left (max_connections, or the role's or "
     "the database's limit)"},
    {"53", SQL_REFUSED, HF_EUNAVAIL, true, "the server lacks a resource"},
    {"55000", SQL_REFUSED, HF_EUNAVAIL, true,
     "the database lets nobody in for now (ALLOW_CONNECTIONS)"},
    {"57P03", SQL_LOST, HF_EUNAVAIL, true, "the server is not ready: later"},
    {"57P", SQL_LOST, HF_EUNAVAIL, true, "the server ended the connection"},
    {"58", SQL_REFUSED, HF_EUNAVAIL, true,
     "the server has trouble with its "
     "system: see its log"},
    /* Of a full disk it may say no more than this. */
    {"XX", SQL_REFUSED, HF_EUNAVAIL, true,
     "the server has trouble of its own: see its log"},
    {"22", SQL_REFUSED, HF_EINVAL, true, "the server refused a value"},
    {"42", SQL_REFUSED, HF_EPROTO, true,
     "the tables are not ours, or the server is too old"},
    {"", SQL_REFUSED, HF_EPROTO, true, "the server says"},
};

static const row *find_row(const char *state)
{
    const row *at = rows;

    while (strncmp(state, at->state, strlen(at->state)) != 0)
        at++;
    return at;
}

/* One line of what people may read: up to the line's end, no odd bytes. */
void pg_line(const char *text, char ret[PG_LINE])
{
    size_t n = 0;

    while (*text == ' ' || *text == '\n')
        text++;
    for (; text[n] && text[n] != '\n' && n + 1 < PG_LINE; n++) {
        unsigned char c = (unsigned char)text[n];

        ret[n] = text[n];
        if (c < ' ' || c == 0x7f)
            ret[n] = '?';
    }
    ret[n] = '\0';
}

static void fill_error(const row *at, const char *where, const char *words,
                       const char *state, hf_error *ret)
{
    char line[PG_LINE];

    pg_line(words, line);
    if (at->told)
        hfd_error(ret, at->code, "postgres", 0, "%.80s: %s: %s (%s)", where,
                  at->text, line, state);
    else
        hfd_error(ret, at->code, "postgres", 0, "%.80s: %s (%s)", where,
                  at->text, state);
}

sql_end pg_judge(const PGresult *result, const char *where, hf_error *ret)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity =
        PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const row *at;

    if (!state) { /* libpq's own: the connection broke */
        char line[PG_LINE];

        pg_line(PQresultErrorMessage(result), line);
        hfd_error(ret, HF_EUNAVAIL, "postgres", 0,
                  "the connection to %.80s was lost: %s", where, line);
        return SQL_LOST;
    }
    at = find_row(state);
    fill_error(at, where, words ? words : "", state, ret);
    if (!severity || strcmp(severity, "ERROR") != 0)
        return SQL_LOST;
    return at->end;
}

bool pg_is_unreplicated(const PGresult *notice)
{
    const char *place = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    return place && strcmp(place, "SyncRepWaitForLSN") == 0;
}

/* ---- Connecting --------------------------------------------------------- */

/* libpq keeps the SQLSTATE of a refused connection to itself, but writes it
 * into a verbose message: "FATAL:  28P01: password ...". */
static const char *find_state(const char *text, char ret[6])
{
    for (const char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
        const char *state = at + 3;
        int n = 0;

        while (n < 5 && (isdigit((unsigned char)state[n]) ||
                         isupper((unsigned char)state[n])))
            n++;
        if (n == 5 && state[5] == ':' && state[6] == ' ') {
            memcpy(ret, state, 5);
            ret[5] = '\0';
            return state + 7;
        }
    }
    return NULL;
}

/* What libpq says by itself. */
static const struct {
    const char *has;
    int code;
    const char *text;
} own_words[] = {
    {"session is read-only", HF_EUNAVAIL,
     "the server is read-only, a standby: give the address of the primary"},
    /* libpq says no more than that. */
    {"certificate verify failed", HF_EAUTH,
     "the server's certificate is not of this CA (see ca_file), or has expired "
     "(renew it on the server)"},
    {"server certificate for", HF_EAUTH,
     "the server's certificate is for another name: use the name that it "
     "has"},
    {"root certificate file", HF_EAUTH,
     "there is no CA to verify the server with: give ca_file"},
    {"could not read root certificate", HF_EAUTH,
     "the file of the CA cannot be read: see ca_file"},
    {"server does not support SSL", HF_EAUTH,
     "the server has no TLS: turn it on there (ssl = on), or tls=no"},
    {"could not load private key", HF_EAUTH,
     "the key file cannot be used: see key_file"},
    {"private key file", HF_EAUTH, "the key file cannot be used: see key_file"},
    {"could not read certificate file", HF_EAUTH,
     "the certificate file cannot be read: see cert_file"},
    {"invalid response to SSL negotiation", HF_EPROTO,
     "what answers there is not PostgreSQL"},
    {"expected authentication request", HF_EPROTO,
     "what answers there is not PostgreSQL"},
    {"could not translate host name", HF_EUNAVAIL,
     "the name cannot be resolved"},
    {"SSL error", HF_EAUTH, "TLS failed"},
};

static int judge_own(const char *text, const char *where, hf_error *ret)
{
    const char *detail = strstr(text, "failed: ");
    char line[PG_LINE];

    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++) {
        if (strstr(text, own_words[i].has))
            return hfd_error(ret, own_words[i].code, "postgres", 0, "%.80s: %s",
                             where, own_words[i].text);
    }
    pg_line(detail ? detail + 8 : text, line);
    return hfd_error(ret, HF_EUNAVAIL, "postgres", 0,
                     "%.80s cannot be reached: %s", where, line);
}

int pg_judge_dial(const PGconn *pg, const char *where, hf_error *ret)
{
    const char *text = PQerrorMessage(pg);
    char state[6];
    const char *words = find_state(text, state);

    if (words) {
        fill_error(find_row(state), where, words, state, ret);
        return find_row(state)->code;
    }
    if (PQconnectionNeedsPassword(pg))
        return hfd_error(ret, HF_EAUTH, "postgres", 0,
                         "%.80s: the server wants a password: put it into the "
                         "URL (postgres://user:password@host) or a URL file",
                         where);
    return judge_own(text, where, ret);
}
