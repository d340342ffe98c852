/* errors.c - what a diagnosis of ODBC means.
 *
 * One question: this call failed with these SQLSTATEs; was it done, may it be
 * tried again, and what does the user need to know?  Knows the three databases
 * that we know by their native numbers, all others by the classes that the
 * standard gives to SQLSTATE.
 *
 * The table is read from the top, the first row that fits counts.  Not applied
 * is said only where the database itself refused the statement: since each is a
 * transaction of its own, refused is rolled back.  What is neither refused nor
 * answered (the connection broke, a commit met an error of the disk), and what
 * no row knows, is LOST if it may have written.
 *
 * The manager looks drivers and data sources up in files.  If it cannot read
 * them for want of a descriptor it says that there are none; who has connected
 * before knows better, and for all others we try to open a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "odbc.h"

enum { TEXT_MAX = 200, ANY = -1 };

typedef struct row {
    const char *of;    /* the dialect's name; NULL: any */
    const char *state; /* how SQLSTATE begins */
    int native;        /* or ANY */
    sql_end end;
    int code;
    const char *text; /* in front of the driver's own words */
    const char *has;  /* only if these have this; NULL: anything */
} row;

#define READ_ONLY                                                              \
    "the server takes no writes (a standby, or read_only): give the address "  \
    "of the primary"
#define NO_TABLE "a table is missing: use create=yes, or run 'holdfast ddl'"
#define NO_RIGHT "not permitted: see the rights in the driver's page"

static const row rows[] = {
    /* SQLite says everything by its number alone. */
    {"sqlite", "", 5, SQL_CLASH, HF_EUNAVAIL, "the file is locked", NULL},
    {"sqlite", "", 6, SQL_CLASH, HF_EUNAVAIL, "a table is locked", NULL},
    {"sqlite", "", 19, SQL_CLASH, HF_EUNAVAIL, "it is there already", NULL},
    {"sqlite", "", 8, SQL_REFUSED, HF_EPERM, "the file is read-only", NULL},
    {"sqlite", "", 3, SQL_REFUSED, HF_EPERM, "no access to the file", NULL},
    {"sqlite", "", 13, SQL_REFUSED, HF_EUNAVAIL, "the disk is full", NULL},
    {"sqlite", "", 14, SQL_BROKEN, HF_EUNAVAIL, "cannot open the file", NULL},
    {"sqlite", "", 11, SQL_BROKEN, HF_EPROTO, "the file is damaged", NULL},
    {"sqlite", "", 26, SQL_BROKEN, HF_EPROTO, "not a SQLite file", NULL},
    {"sqlite", "", 17, SQL_CLASH, HF_EUNAVAIL, "the tables have changed", NULL},
    {"sqlite", "", 1, SQL_REFUSED, HF_EPROTO, "the database refuses it", NULL},
    /* Numbers of MariaDB and MySQL whose SQLSTATE says too little. */
    {"mysql", "", 1205, SQL_CLASH, HF_EUNAVAIL, "a row was locked for long",
     NULL},
    {"mysql", "", 1020, SQL_CLASH, HF_EUNAVAIL, "a row has changed", NULL},
    {"mysql", "", 3572, SQL_CLASH, HF_EUNAVAIL, "the row is locked", NULL},
    {"mysql", "", 1213, SQL_CLASH, HF_EUNAVAIL, "deadlock", NULL},
    {"mysql", "", 1969, SQL_CLASH, HF_EUNAVAIL, "it took too long", NULL},
    {"mysql", "", 3024, SQL_CLASH, HF_EUNAVAIL, "it took too long", NULL},
    {"mysql", "", 1290, SQL_BROKEN, HF_EUNAVAIL, READ_ONLY, NULL},
    {"mysql", "", 1792, SQL_BROKEN, HF_EUNAVAIL, READ_ONLY, NULL},
    {"mysql", "", 1836, SQL_BROKEN, HF_EUNAVAIL, READ_ONLY, NULL},
    {"mysql", "", 1021, SQL_REFUSED, HF_EUNAVAIL, "the disk is full", NULL},
    {"mysql", "", 1114, SQL_REFUSED, HF_EUNAVAIL, "the table is full", NULL},
    {"mysql", "", 1040, SQL_BROKEN, HF_EUNAVAIL, "too many connections", NULL},
    {"mysql", "", 1203, SQL_BROKEN, HF_EUNAVAIL, "too many connections", NULL},
    {"mysql", "", 1044, SQL_REFUSED, HF_EPERM, NO_RIGHT, NULL},
    {"mysql", "", 1142, SQL_REFUSED, HF_EPERM, NO_RIGHT, NULL},
    {"mysql", "", 1143, SQL_REFUSED, HF_EPERM, NO_RIGHT, NULL},
    {"mysql", "", 1227, SQL_REFUSED, HF_EPERM, NO_RIGHT, NULL},
    {"mysql", "", 1049, SQL_REFUSED, HF_EURL, "no such database", NULL},
    {"mysql", "", 1053, SQL_LOST, HF_EUNAVAIL, "the server shuts down", NULL},
    {"mysql", "", 1317, SQL_LOST, HF_EUNAVAIL, "it was killed", NULL},
    {"mysql", "", 2006, SQL_LOST, HF_EUNAVAIL, "the connection broke", NULL},
    {"mysql", "", 2013, SQL_LOST, HF_EUNAVAIL, "the connection broke", NULL},
    /* PostgreSQL has SQLSTATEs of its own. */
    {"postgres", "40003", ANY, SQL_LOST, HF_EUNAVAIL, "unknown outcome", NULL},
    {"postgres", "55P03", ANY, SQL_CLASH, HF_EUNAVAIL,
     "a row was locked for long", NULL},
    {"postgres", "57014", ANY, SQL_CLASH, HF_EUNAVAIL, "it took too long",
     NULL},
    {"postgres", "57P", ANY, SQL_LOST, HF_EUNAVAIL,
     "the server ended the connection", NULL},
    {"postgres", "25006", ANY, SQL_BROKEN, HF_EUNAVAIL, READ_ONLY, NULL},
    {"postgres", "53", ANY, SQL_REFUSED, HF_EUNAVAIL,
     "the server has no room (disk, memory or connections)", NULL},
    {"postgres", "42501", ANY, SQL_REFUSED, HF_EPERM, NO_RIGHT, NULL},
    {"postgres", "42P01", ANY, SQL_REFUSED, HF_EPROTO, NO_TABLE, NULL},
    {"postgres", "3F000", ANY, SQL_REFUSED, HF_EURL, "no such schema", NULL},
    {"postgres", "3D000", ANY, SQL_REFUSED, HF_EURL, "no such database", NULL},
    /* A prepared statement that a pooler gave to somebody else. */
    {"postgres", "26000", ANY, SQL_REFUSED, HF_EPROTO,
     "behind a pooler write UseServerSidePrepare=0", NULL},
    /* Everybody's. */
    {NULL, "40003", ANY, SQL_LOST, HF_EUNAVAIL, "unknown outcome", NULL},
    {NULL, "40", ANY, SQL_CLASH, HF_EUNAVAIL, "it met another transaction",
     NULL},
    {NULL, "23", ANY, SQL_CLASH, HF_EUNAVAIL, "it is there already", NULL},
    {NULL, "08", ANY, SQL_LOST, HF_EUNAVAIL, "the connection broke", NULL},
    {NULL, "HYT", ANY, SQL_LOST, HF_EUNAVAIL, "no answer in time", NULL},
    {NULL, "HY008", ANY, SQL_LOST, HF_EUNAVAIL, "it was cancelled", NULL},
    {NULL, "28", ANY, SQL_REFUSED, HF_EAUTH,
     "the server refused the user name or the password", NULL},
    {NULL, "42S02", ANY, SQL_REFUSED, HF_EPROTO, NO_TABLE, NULL},
    {NULL, "42S0", ANY, SQL_REFUSED, HF_EPROTO, "the tables are not ours",
     NULL},
    {NULL, "42", ANY, SQL_REFUSED, HF_EPROTO, "the database refuses it", NULL},
    {NULL, "22001", ANY, SQL_REFUSED, HF_EFULL,
     "the queue, or a value, is longer than its column", NULL},
    {NULL, "22", ANY, SQL_REFUSED, HF_EPROTO, "the database refuses it", NULL},
    {NULL, "0A", ANY, SQL_REFUSED, HF_EPROTO, "the database cannot do that",
     NULL},
    {NULL, "07", ANY, SQL_REFUSED, HF_EPROTO, "the driver refuses it", NULL},
    {NULL, "25", ANY, SQL_REFUSED, HF_EPROTO, "the database refuses it", NULL},
    {NULL, "HYC00", ANY, SQL_REFUSED, HF_EPROTO, "the driver cannot do that",
     NULL},
    {NULL, "HY001", ANY, SQL_LOST, HF_ENOMEM, "out of memory", NULL},
    {NULL, "IM", ANY, SQL_REFUSED, HF_EDRIVER, "the driver cannot do that",
     NULL},
    {NULL, "", ANY, SQL_LOST, HF_EPROTO, "the driver says", NULL},
};

/* Connections that did not come about: nothing was applied, only the code and
 * the cure differ.  PostgreSQL's driver has one SQLSTATE for all of them, so
 * its words count; in another language they all mean "later". */
#define PASSWORD "the server refused the user name or the password"
static const row refusals[] = {
    {NULL, "01000", ANY, SQL_BROKEN, HF_EDRIVER,
     "no such ODBC driver ('odbcinst -q -d' lists them)", "Can't open lib"},
    {NULL, "IM002", ANY, SQL_BROKEN, HF_EURL,
     "no such data source ('odbcinst -q -s' lists them)", NULL},
    {NULL, "IM", ANY, SQL_BROKEN, HF_EDRIVER,
     "the ODBC driver cannot be used: see odbcinst.ini", NULL},
    {NULL, "28", ANY, SQL_BROKEN, HF_EAUTH, PASSWORD, NULL},
    {NULL, "08", ANY, SQL_BROKEN, HF_EAUTH, PASSWORD,
     "password authentication failed"},
    {NULL, "08", ANY, SQL_BROKEN, HF_EAUTH, PASSWORD, "no password supplied"},
    {NULL, "08", ANY, SQL_BROKEN, HF_EAUTH,
     "the server lets nobody in from here (pg_hba.conf)", "no pg_hba.conf"},
    {NULL, "08", ANY, SQL_BROKEN, HF_EURL, "no such database",
     "does not exist"},
    {NULL, "3D000", ANY, SQL_BROKEN, HF_EURL, "no such database", NULL},
    {NULL, "53", ANY, SQL_BROKEN, HF_EUNAVAIL, "too many connections", NULL},
    {NULL, "", 1045, SQL_BROKEN, HF_EAUTH, PASSWORD, NULL},
    {NULL, "", 1698, SQL_BROKEN, HF_EAUTH, PASSWORD, NULL},
    {NULL, "", 1044, SQL_BROKEN, HF_EPERM, "no right to this database", NULL},
    {NULL, "", 1049, SQL_BROKEN, HF_EURL, "no such database", NULL},
    {NULL, "", 1040, SQL_BROKEN, HF_EUNAVAIL, "too many connections", NULL},
    {NULL, "HY000", 14, SQL_BROKEN, HF_EUNAVAIL,
     "cannot open the file: is its folder there, and may you write there?",
     "connect failed"},
    {NULL, "", ANY, SQL_BROKEN, HF_EUNAVAIL, "cannot connect", NULL},
};

typedef struct diagnosis {
    char state[6];
    int native;
    char text[TEXT_MAX];
} diagnosis;

/* The driver's words as one line without the names in brackets in front, and
 * without the password, should one repeat it. */
static void copy_words(const odbc_port *port, diagnosis *d, const char *from)
{
    size_t n = 0;

    while (*from == '[') {
        const char *close = strchr(from, ']');

        if (!close)
            break;
        from = close + 1;
    }
    if (port->secret[0] && strstr(from, port->secret))
        from = "(its words contain the password)";
    for (; *from && n + 1 < sizeof d->text; from++) {
        unsigned char c = (unsigned char)*from;

        if (c >= ' ' && c != 0x7f)
            d->text[n++] = *from;
        else if (n && d->text[n - 1] != ' ')
            d->text[n++] = ' ';
    }
    d->text[n] = '\0';
}

/* The first record that is an error; warnings come with it. */
static void read_diagnosis(const odbc_port *port, SQLSMALLINT type,
                           SQLHANDLE handle, diagnosis *ret)
{
    char words[1024];

    *ret = (diagnosis){.state = "HY000"};
    copy_words(port, ret, "nothing");
    for (SQLSMALLINT i = 1; i < 8; i++) {
        SQLCHAR state[6] = "";
        SQLINTEGER native = 0;
        SQLSMALLINT len;

        if (!SQL_SUCCEEDED(SQLGetDiagRec(type, handle, i, state, &native,
                                         (SQLCHAR *)words, sizeof words, &len)))
            return;
        memcpy(ret->state, state, sizeof ret->state);
        ret->native = native;
        copy_words(port, ret, words);
        if (memcmp(state, "01", 2) != 0 && memcmp(state, "00", 2) != 0)
            return;
    }
}

static bool fits(const row *r, const diagnosis *d, const char *of)
{
    bool sqlite = of && strcmp(of, "sqlite") == 0;

    if (r->of && (!of || strcmp(r->of, of) != 0))
        return false;
    if (strncmp(d->state, r->state, strlen(r->state)) != 0)
        return false;
    if (r->has && !strstr(d->text, r->has))
        return false;
    /* SQLite's extended codes have more above the first eight bits. */
    return r->native == ANY ||
           r->native == (sqlite ? d->native & 0xff : d->native);
}

/* Whose numbers these are: MariaDB's are MySQL's. */
static const char *family_of(const odbc_port *port)
{
    const char *name = port->known ? port->known->name : NULL;

    return name && strcmp(name, "mariadb") == 0 ? "mysql" : name;
}

sql_end odbc_error_of(const odbc_port *port, SQLSMALLINT type, SQLHANDLE handle,
                      bool writes, hf_error *err)
{
    const char *of = family_of(port);
    const row *r = rows;
    diagnosis d;

    read_diagnosis(port, type, handle, &d);
    while (!fits(r, &d, of))
        r++;
    hfd_error(err, r->code, "odbc", d.native, "%s: %s (%s)", r->text, d.text,
              d.state);
    /* What only reads and was refused for a reason that nobody knows has not
     * hurt the connection. */
    if (r->end == SQL_LOST && !writes && !*r->state)
        return SQL_REFUSED;
    return r->end;
}

static bool has_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno != EMFILE && errno != ENFILE);
}

int odbc_connect_error(const odbc_port *port, SQLHANDLE dbc, hf_error *err)
{
    const row *r = refusals;
    diagnosis d;

    read_diagnosis(port, SQL_HANDLE_DBC, dbc, &d);
    while (!fits(r, &d, NULL))
        r++;
    if ((strcmp(r->state, "01000") == 0 || strncmp(r->state, "IM", 2) == 0) &&
        (atomic_load(&port->stood) || !has_descriptor()))
        return hfd_error(err, HF_EUNAVAIL, "odbc", d.native,
                         "cannot be found now, for want of file descriptors "
                         "perhaps: %s (%s)",
                         d.text, d.state);
    return hfd_error(err, r->code, "odbc", d.native, "%s: %s (%s)", r->text,
                     d.text, d.state);
}

/* PostgreSQL has committed and did not wait for its standby any longer: done
 * here, and gone if the standby takes over now. */
void odbc_warning_of(const odbc_port *port, SQLHANDLE handle)
{
    hf_error why;
    diagnosis d;

    read_diagnosis(port, SQL_HANDLE_STMT, handle, &d);
    if (!port->base.doubt || !strstr(d.text, "synchronous replication"))
        return;
    hfd_error(&why, HF_EUNAVAIL, "odbc", d.native, "%s", d.text);
    port->base.doubt(port->base.store, &why);
}
