/* dialect_words.c - the words of each database that is known.
 *
 * Answers: how does PostgreSQL, MariaDB, MySQL or SQLite say the clock, a key,
 * a text in a text, and what do its tables look like?  Tables only: how words
 * become statements is in dialect.c.
 *
 * What every table keeps to: one row per key, found by its primary key and by
 * nothing else (an index on used_us would be written at every join, and would
 * cost PostgreSQL its HOT updates); texts compare byte by byte, whatever the
 * database's language is; instants are BIGINTs.  A clock is the one at which
 * the statement runs or began, never the reader's: begun earlier, it judges
 * sessions to be less over than they are, which errs towards waiting. */
#include "dialect.h"

/* ---- PostgreSQL ---- */

/* The next one, if it is alone in holding, is told by the statement that made
 * it so: committed together, or neither.  ?3 is 'y' where the leaver held. */
static const char *const postgres_overrides[] = {
    "LEAVE",
    SQL_CUT_SET
    " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?4 AND exp_us > @now)"
    " RETURNING " SQL_QUEUE_ANSWER
    ", CASE WHEN ?3 = 'y' AND body LIKE '|X%' THEN CAST(pg_notify("
    "'hf_' || split_part(body, '.', 3), split_part(body, '.', 2) || ' ' ||"
    " substr(split_part(body, '.', 1), 3) || ' ' || split_part(body, '.', 4))"
    " AS text) END",
    NULL};

/* fillfactor: room for the next version beside this one, so that an update
 * touches one page and no index.  Ids do not compress: do not try. */
static const char *const postgres_tables[] = {
    "CREATE TABLE IF NOT EXISTS @meta("
    "one integer PRIMARY KEY CHECK (one = 1), format integer NOT NULL,"
    " floor bigint NOT NULL, strict integer NOT NULL,"
    " epoch text COLLATE \"C\" NOT NULL, quarantine_us bigint NOT NULL,"
    " max_lease_us bigint NOT NULL, clock text COLLATE \"C\" NOT NULL)",
    "CREATE TABLE IF NOT EXISTS @session("
    "sid text COLLATE \"C\" PRIMARY KEY, ttl_us bigint NOT NULL,"
    " exp_us bigint NOT NULL, renewals bigint NOT NULL, pid bigint NOT NULL,"
    " host text NOT NULL, name text NOT NULL,"
    " bell text COLLATE \"C\" NOT NULL, news text COLLATE \"C\" NOT NULL)"
    " WITH (fillfactor = 50)",
    "CREATE TABLE IF NOT EXISTS @queue("
    "k bytea PRIMARY KEY, counter bigint NOT NULL,"
    " kind text COLLATE \"C\" NOT NULL, body text COLLATE \"C\" NOT NULL,"
    " tombs text COLLATE \"C\" NOT NULL, used_us bigint NOT NULL)"
    " WITH (fillfactor = 50)",
    "ALTER TABLE @queue ALTER COLUMN body SET STORAGE EXTERNAL",
    "CREATE TABLE IF NOT EXISTS @value("
    "rid text COLLATE \"C\" PRIMARY KEY, v text COLLATE \"C\" NOT NULL,"
    " used_us bigint NOT NULL)",
    "INSERT INTO @meta(one, format, floor, strict, epoch, quarantine_us,"
    " max_lease_us, clock) VALUES (1, 1, 0, 0, '', 0, 0, '')"
    " ON CONFLICT DO NOTHING",
    NULL};

const sql_dialect sql_postgres = {
    .name = "postgres",
    .numbered = true,
    .quote = '"',
    .returning = true,
    .now = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
    /* The timeline: another one after every promotion. */
    .epoch = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)",
    .from = "greatest(%, CAST(extract(epoch FROM statement_timestamp())"
            " * 1000000 AS bigint))",
    .key_in = "decode(%, 'hex')",
    .key_out = "encode(%, 'hex')",
    .cat = " || ",
    .pos = "strpos(%2, %1)",
    .head = "left(%, 600)",
    .len = "length(%)",
    .text = "CAST(% AS text)",
    .integer = "CAST(% AS bigint)",
    .share = "FOR SHARE",
    .few = "LIMIT 100",
    .overrides = postgres_overrides,
    .tables = postgres_tables};

/* ---- MariaDB and MySQL ---- */

#define MY_ASCII " CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
#define MY_TABLE ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC"

static const char *const mysql_tables[] = {
    "CREATE TABLE IF NOT EXISTS @meta("
    "one INT NOT NULL PRIMARY KEY, format INT NOT NULL, floor BIGINT NOT NULL,"
    " strict INT NOT NULL, epoch VARCHAR(255)" MY_ASCII ","
    " quarantine_us BIGINT NOT NULL, max_lease_us BIGINT NOT NULL,"
    " clock VARCHAR(20)" MY_ASCII MY_TABLE,
    "CREATE TABLE IF NOT EXISTS @session("
    "sid VARCHAR(22)" MY_ASCII " PRIMARY KEY, ttl_us BIGINT NOT NULL,"
    " exp_us BIGINT NOT NULL, renewals BIGINT NOT NULL, pid BIGINT NOT NULL,"
    " host TEXT CHARACTER SET utf8mb4 NOT NULL,"
    " name TEXT CHARACTER SET utf8mb4 NOT NULL,"
    " bell VARCHAR(64)" MY_ASCII ", news LONGTEXT" MY_ASCII MY_TABLE,
    "CREATE TABLE IF NOT EXISTS @queue("
    "k VARBINARY(1000) NOT NULL PRIMARY KEY, counter BIGINT NOT NULL,"
    " kind VARCHAR(20)" MY_ASCII ", body LONGTEXT" MY_ASCII ","
    " tombs LONGTEXT" MY_ASCII ", used_us BIGINT NOT NULL" MY_TABLE,
    "CREATE TABLE IF NOT EXISTS @value("
    "rid VARCHAR(22)" MY_ASCII " PRIMARY KEY, v LONGTEXT" MY_ASCII ","
    " used_us BIGINT NOT NULL" MY_TABLE,
    "INSERT IGNORE INTO @meta(one, format, floor, strict, epoch,"
    " quarantine_us, max_lease_us, clock)"
    " VALUES (1, 1, 0, 0, '', 0, 0, '')",
    NULL};

#define MY_WORDS                                                               \
    .quote = '`',                                                              \
    .now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",       \
    .epoch = "CONCAT_WS(':', @@hostname, @@port, @@server_id)",                \
    .from = "GREATEST(%, TIMESTAMPDIFF(MICROSECOND, '1970-01-01',"             \
            " UTC_TIMESTAMP(6)))",                                             \
    .key_in = "UNHEX(%)", .key_out = "LOWER(HEX(%))", .pos = "LOCATE(%1, %2)", \
    .head = "LEFT(%, 600)", .len = "LENGTH(%)", .text = "CAST(% AS CHAR)",     \
    .integer = "CAST(% AS SIGNED)", .share = "LOCK IN SHARE MODE",             \
    .few = "LIMIT 100", .tables = mysql_tables

/* MariaDB answers what an INSERT has done, but not an UPDATE: so an insert that
 * always finds its row there.  Its SELECT ... FOR UPDATE locks the row and
 * judges it as it is then; only a row that passed is "inserted", meets itself
 * and becomes the update.  None passed: nothing is written, nothing answered,
 * and no row is ever made here. */
/* clang-format off */
#define MY_QUEUE_OLD                                                           \
    "INSERT INTO @queue(k, counter, kind, body, tombs, used_us)"               \
    " SELECT old.k, 0, '', '', '', 0 FROM @queue AS old"                       \
    " WHERE old.k = @key(?1)"
#define MY_INSTEAD " FOR UPDATE ON DUPLICATE KEY UPDATE "
#define MY_ANSWER " RETURNING " SQL_QUEUE_ANSWER
#define MY_ALIVE(sid)                                                          \
    " AND EXISTS (SELECT 1 FROM @session WHERE sid = " sid " AND exp_us > @now)"
#define MY_JOIN(more)                                                          \
    MY_QUEUE_OLD " AND (old.body = '' OR old.kind = ?3)"                       \
    " AND @pos(?6, old.body) = 0 AND @pos(?6, old.tombs) = 0"                  \
    MY_ALIVE("?7") more MY_INSTEAD                                             \
    "@queue.body = @cat(@queue.body, ?4,"                                      \
    " @text(@from(@queue.counter) + 1), ?5),"                                  \
    " @queue.counter = @from(@queue.counter) + @int(?2), @queue.kind = ?3,"    \
    " @queue.used_us = @now" MY_ANSWER
#define MY_CUT(more)                                                           \
    MY_QUEUE_OLD " AND @pos(?2, old.body) > 0" more MY_INSTEAD                 \
    "@queue.body = replace(@queue.body, ?2, ''), @queue.used_us = @now"        \
    MY_ANSWER

static const char *const mariadb_overrides[] = {
    "JOIN", MY_JOIN(""),
    "TRY_X", MY_JOIN(" AND old.body = ''"),
    "TRY_S", MY_JOIN(" AND @pos('|X', old.body) = 0"),
    "TRY_P", MY_JOIN(" AND @len(old.body) - @len(replace(old.body, '|P', ''))"
                     " < 2 * @int(?8)"),
    "LEAVE", MY_CUT(MY_ALIVE("?4")),
    "CUT", MY_CUT(""),
    "CHANGE", MY_QUEUE_OLD " AND @pos(?2, old.body) > 0" MY_INSTEAD
    "@queue.body = replace(@queue.body, ?2,"
    " @cat(?3, @text(@now + @int(?4)), ?5)), @queue.used_us = @now" MY_ANSWER,
    "RENEW",
    "INSERT INTO @session(sid, ttl_us, exp_us, renewals, pid, host, name, bell,"
    " news) SELECT old.sid, 0, 0, 0, 0, '', '', '', '' FROM @session AS old"
    " WHERE old.sid = ?1 AND old.exp_us > @now" MY_INSTEAD
    "@session.exp_us = @now + @int(?2), @session.ttl_us = @int(?2),"
    " @session.renewals = @session.renewals + 1"
    " RETURNING " SQL_SESSION_ANSWER,
    NULL};
/* clang-format on */

const sql_dialect sql_mariadb = {.name = "mariadb",
                                 .returning = true,
                                 .overrides = mariadb_overrides,
                                 MY_WORDS};
/* Also a MariaDB before 10.5. */
const sql_dialect sql_mysql = {.name = "mysql", MY_WORDS};

/* ---- SQLite (over ODBC) ---- */

/* Keys stay hex: unhex() is younger than the SQLite of many systems. */
static const char *const sqlite_tables[] = {
    "CREATE TABLE IF NOT EXISTS @meta("
    "one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
    " floor INTEGER NOT NULL, strict INTEGER NOT NULL, epoch TEXT NOT NULL,"
    " quarantine_us INTEGER NOT NULL, max_lease_us INTEGER NOT NULL,"
    " clock TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS @session("
    "sid TEXT NOT NULL PRIMARY KEY, ttl_us INTEGER NOT NULL,"
    " exp_us INTEGER NOT NULL, renewals INTEGER NOT NULL,"
    " pid INTEGER NOT NULL, host TEXT NOT NULL, name TEXT NOT NULL,"
    " bell TEXT NOT NULL, news TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS @queue("
    "k TEXT NOT NULL PRIMARY KEY, counter INTEGER NOT NULL,"
    " kind TEXT NOT NULL, body TEXT NOT NULL, tombs TEXT NOT NULL,"
    " used_us INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS @value("
    "rid TEXT NOT NULL PRIMARY KEY, v TEXT NOT NULL,"
    " used_us INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO @meta(one, format, floor, strict, epoch,"
    " quarantine_us, max_lease_us, clock)"
    " VALUES (1, 1, 0, 0, '', 0, 0, '')",
    NULL};

const sql_dialect sql_sqlite = {
    .name = "sqlite",
    .quote = '"',
    .returning = true,
    /* Its clock counts milliseconds; a day's fraction is not exact. */
    .now = "(CAST(round((julianday('now') - 2440587.5) * 86400000.0)"
           " AS INTEGER) * 1000)",
    .from = "max(%, CAST(round((julianday('now') - 2440587.5) * 86400000.0)"
            " AS INTEGER) * 1000)",
    .key_in = "%",
    .key_out = "%",
    .cat = " || ",
    .pos = "instr(%2, %1)",
    .head = "substr(%, 1, 600)",
    .len = "length(%)",
    .text = "CAST(% AS TEXT)",
    .integer = "CAST(% AS INTEGER)",
    .share = "",
    .few = "LIMIT 100",
    .tables = sqlite_tables};

/* ---- Any other (over ODBC): what the standard says ---- */

/* No clock of the server that all would understand, so observers only.  A
 * queue is as long as the column: some fifty entries. */
static const char *const generic_tables[] = {
    "CREATE TABLE @meta("
    "one INTEGER NOT NULL PRIMARY KEY, format INTEGER NOT NULL,"
    " floor BIGINT NOT NULL, strict INTEGER NOT NULL,"
    " epoch VARCHAR(255) NOT NULL, quarantine_us BIGINT NOT NULL,"
    " max_lease_us BIGINT NOT NULL, clock VARCHAR(20) NOT NULL)",
    "CREATE TABLE @session("
    "sid VARCHAR(22) NOT NULL PRIMARY KEY, ttl_us BIGINT NOT NULL,"
    " exp_us BIGINT NOT NULL, renewals BIGINT NOT NULL, pid BIGINT NOT NULL,"
    " host VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL,"
    " bell VARCHAR(64) NOT NULL, news VARCHAR(4000) NOT NULL)",
    "CREATE TABLE @queue("
    "k VARCHAR(2000) NOT NULL PRIMARY KEY, counter BIGINT NOT NULL,"
    " kind VARCHAR(20) NOT NULL, body VARCHAR(4000) NOT NULL,"
    " tombs VARCHAR(4000) NOT NULL, used_us BIGINT NOT NULL)",
    "CREATE TABLE @value("
    "rid VARCHAR(22) NOT NULL PRIMARY KEY, v VARCHAR(3000) NOT NULL,"
    " used_us BIGINT NOT NULL)",
    /* One row if there is none: a count over nothing is a row. */
    "INSERT INTO @meta(one, format, floor, strict, epoch, quarantine_us,"
    " max_lease_us, clock) SELECT 1, 1, 0, 0, '', 0, 0, '' FROM @meta"
    " HAVING count(*) = 0",
    NULL};

const sql_dialect sql_generic = {.name = "odbc",
                                 .quote = '"',
                                 .from = "%",
                                 .key_in = "%",
                                 .key_out = "%",
                                 .cat = " || ",
                                 .pos = "POSITION(%1 IN %2)",
                                 .head = "SUBSTRING(% FROM 1 FOR 600)",
                                 .len = "CHAR_LENGTH(%)",
                                 .text = "CAST(% AS VARCHAR(20))",
                                 .integer = "CAST(% AS BIGINT)",
                                 .few = "",
                                 .tables = generic_tables};
