/* dialect_test.c - templates become statements: words inside words, places in
 * their order, names quoted, and a template that cannot be said is refused.
 * Every statement of every dialect is looked at; those of SQLite are run. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <ctype.h>
#include <sqlite3.h>

#include "body.h"
#include "dialect.h"

static const sql_dialect *const all[] = {&sql_postgres, &sql_mariadb,
                                         &sql_mysql, &sql_sqlite, &sql_generic};
enum { ALL = sizeof all / sizeof *all };

static const char *const names[] = {
#define NAME(name, writes, text) #name,
    SQL_STATEMENTS(NAME)
#undef NAME
};

static const char *one(const sql_dialect *dialect, const char *template)
{
    static char text[SQL_TEXT_MAX];
    hf_error err = {0};

    EXPECT_OK(sql_render_one(text, dialect, "", "hf_", template, &err), err);
    return text;
}

static void words(void)
{
    const sql_dialect *pg = &sql_postgres, *my = &sql_mysql;

    EXPECT_STR(one(pg, "@pos(?1, body) = 0"), "strpos(body, $1) = 0");
    EXPECT_STR(one(my, "@pos(?1, body) = 0"), "LOCATE(?, body) = 0");
    EXPECT_STR(one(&sql_generic, "@pos('|X', b)"), "POSITION('|X' IN b)");
    EXPECT_STR(one(pg, "@cat(?3, @text(1 + @int(?4)), ?5)"),
               "($1 || CAST(1 + CAST($2 AS bigint) AS text) || $3)");
    EXPECT_STR(one(my, "@cat(?3, @text(1 + @int(?4)), ?5)"),
               "CONCAT(?, CAST(1 + CAST(? AS SIGNED) AS CHAR), ?)");
    EXPECT_STR(one(my, "@key(?1) @hex(k) @head(b) @len(b) @share @few"),
               "UNHEX(?) LOWER(HEX(k)) LEFT(b, 600) LENGTH(b)"
               " LOCK IN SHARE MODE LIMIT 100");
    /* What is quoted is text, brackets and commas in it, too. */
    EXPECT_STR(one(pg, "'@now ?1' @pos('a),(b', x)"),
               "'@now ?1' strpos(x, 'a),(b')");
    EXPECT_STR(one(pg, "@cat(f(a, b), g((c), d))"), "(f(a, b) || g((c), d))");
    /* Words that a database does not have leave nothing behind. */
    EXPECT_STR(one(&sql_generic, "x ORDER BY k @few"), "x ORDER BY k");
    EXPECT_STR(one(&sql_generic, "x @share"), "x");
    EXPECT_STR(one(&sql_generic, "@now"), "0");
    EXPECT_STR(one(&sql_generic, "@epoch"), "''");
}

static void tables_named(void)
{
    char text[SQL_TEXT_MAX];
    hf_error err = {0};

    EXPECT_OK(sql_render_one(text, &sql_postgres, "my", "a_",
                             "@queue @session @meta @value", &err),
              err);
    EXPECT_STR(text, "\"my\".\"a_queue\" \"my\".\"a_session\""
                     " \"my\".\"a_meta\" \"my\".\"a_value\"");
    EXPECT_OK(sql_render_one(text, &sql_mysql, "", "a_", "@queue.k", &err),
              err);
    EXPECT_STR(text, "`a_queue`.k");
}

static void refused(void)
{
    static const char *const wrong[] = {"@nothing",
                                        "@nothing(1)",
                                        "@key",
                                        "@key(?1",
                                        "@key('a)",
                                        "@pos(?1)",
                                        "?",
                                        "?x",
                                        "?0",
                                        "?41",
                                        "?100",
                                        "@keys(1)",
                                        "@keys(?10)",
                                        "@key(@nothing)",
                                        "@cat(1,2,3,4,5,6,7,8,9)",
                                        "@text(@text(?))",
                                        "@"};
    char text[SQL_TEXT_MAX], *longest;
    hf_error err = {0};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int code =
            sql_render_one(text, &sql_postgres, "", "hf_", wrong[i], &err);

        if (code != HF_EINTERNAL)
            FAIL_TEST("taken: %s, as %s", wrong[i], text);
    }
    /* One letter more than there is room for. */
    longest = calloc(1, SQL_TEXT_MAX + 1);
    EXPECT(longest != NULL);
    memset(longest, 'a', SQL_TEXT_MAX - 1);
    EXPECT_CODE(sql_render_one(text, &sql_mysql, "", "", longest, &err), 0);
    EXPECT_EQ(strlen(text), SQL_TEXT_MAX - 1);
    longest[SQL_TEXT_MAX - 1] = 'a';
    EXPECT_CODE(sql_render_one(text, &sql_mysql, "", "", longest, &err),
                HF_EINTERNAL);
    free(longest);
}

/* ---- Every statement ---- */

static sql_text *rendered(const sql_dialect *dialect)
{
    static sql_text texts[SQL_COUNT];
    hf_error err = {0};

    memset(texts, 0x55, sizeof texts);
    EXPECT_OK(sql_render(texts, dialect, "s", "hf_", &err), err);
    return texts;
}

/* How many places its text has; numbered ones appear first in order. */
static unsigned places_of(const sql_dialect *dialect, const char *text)
{
    unsigned n = 0;

    for (const char *at = text; *at; at++) {
        if (*at == '\'') {
            at = strchr(at + 1, '\'');
            EXPECT(at != NULL);
        } else if (dialect->numbered && *at == '$') {
            unsigned long number = strtoul(at + 1, NULL, 10);

            EXPECT(number >= 1 && number <= n + 1);
            n = number > n ? (unsigned)number : n;
        } else if (!dialect->numbered && *at == '?') {
            n++;
        }
    }
    return n;
}

static void check_text(const sql_dialect *dialect, const sql_text *text)
{
    const char *name = names[text->id];
    bool reads = strncmp(text->text, "SELECT ", 7) == 0;

    if (text->writes == reads)
        FAIL_TEST("%s says it %s: %s", name, reads ? "writes" : "reads",
                  text->text);
    EXPECT_EQ(text->count, places_of(dialect, text->text));
    for (size_t i = 0; i < text->count; i++)
        EXPECT(text->order[i] < SQL_PARAMS);
    for (const char *at = text->text; *at; at++) {
        EXPECT(*at != '%' || at[1] == '\''); /* LIKE '|X%' */
        /* No word is left: MySQL's own have two of these. */
        EXPECT(*at != '@' || at[1] == '@' || at[-1] == '@');
        EXPECT(*at != '?' || !isdigit((unsigned char)at[1]));
    }
    if (!dialect->returning)
        EXPECT(strstr(text->text, "RETURNING") == NULL);
}

static void every_statement(void)
{
    for (size_t i = 0; i < ALL; i++) {
        sql_text *texts = rendered(all[i]);

        for (size_t id = 0; id < SQL_COUNT; id++) {
            EXPECT_EQ(texts[id].id, id);
            check_text(all[i], &texts[id]);
        }
    }
}

/* An override takes the parameters of what it stands for, no others. */
static void overrides(void)
{
    for (size_t i = 0; i < ALL; i++) {
        sql_dialect plain = *all[i];
        uint64_t wanted[SQL_COUNT], took;
        const char *const *pair = plain.overrides;

        plain.overrides = NULL;
        for (size_t id = 0; id < SQL_COUNT; id++) {
            const sql_text *text = &rendered(&plain)[id];

            wanted[id] = 0;
            for (size_t k = 0; k < text->count; k++)
                wanted[id] |= UINT64_C(1) << text->order[k];
        }
        for (; pair && *pair; pair += 2) {
            size_t id = 0;
            const sql_text *text;

            while (id < SQL_COUNT && strcmp(names[id], pair[0]) != 0)
                id++;
            if (id == SQL_COUNT)
                FAIL_TEST("%s overrides '%s', which is no statement",
                          plain.name, pair[0]);
            text = &rendered(all[i])[id];
            took = 0;
            for (size_t k = 0; k < text->count; k++)
                took |= UINT64_C(1) << text->order[k];
            if (id == SQL_LEAVE)
                took &= ~(UINT64_C(1) << 2); /* the common one has no use */
            EXPECT_EQ(took, wanted[id]);
        }
    }
}

static void observer(void)
{
    for (size_t i = 0; i < ALL; i++) {
        sql_dialect blind = *all[i];
        const sql_text *texts;

        blind.now = NULL;
        blind.from = "%"; /* numbers may have the clock as their floor */
        texts = rendered(&blind);
        for (size_t id = 0; id < SQL_COUNT; id++)
            EXPECT(!all[i]->now || !strstr(texts[id].text, all[i]->now));
        EXPECT_HAS(texts[SQL_EVICT].text, "exp_us <= 0");
    }
}

/* ---- On a database ---- */

/* from NULL: the dialect's own floor under the numbers. */
static sqlite3 *lite_open(sql_text *texts, bool blind, const char *from)
{
    sql_dialect dialect = sql_sqlite;
    sqlite3 *db;
    hf_error err = {0};

    if (blind)
        dialect.now = NULL;
    if (from)
        dialect.from = from;
    EXPECT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (int twice = 0; twice < 2; twice++) {
        for (const char *const *at = dialect.tables; *at; at++) {
            char text[SQL_TEXT_MAX];

            EXPECT_OK(sql_render_one(text, &dialect, "", "hf_", *at, &err),
                      err);
            EXPECT_EQ(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
        }
    }
    EXPECT_OK(sql_render(texts, &dialect, "", "hf_", &err), err);
    return db;
}

/* Runs it with the parameters behind `id`; the cell `col` of its first row, or
 * how many rows it changed; "": no row. */
static const char *lite(sqlite3 *db, const sql_text *texts, sql_id id, int col,
                        const char *const *params)
{
    static char ret[4096];
    const sql_text *text = &texts[id];
    sqlite3_stmt *st;
    int code;

    ret[0] = '\0';
    if (sqlite3_prepare_v2(db, text->text, -1, &st, NULL) != SQLITE_OK)
        FAIL_TEST("%s: %s: %s", names[id], sqlite3_errmsg(db), text->text);
    EXPECT_EQ(sqlite3_bind_parameter_count(st), text->count);
    for (int i = 0; i < text->count; i++)
        sqlite3_bind_text(st, i + 1, params[text->order[i]], -1,
                          SQLITE_TRANSIENT);
    code = sqlite3_step(st);
    if (code == SQLITE_ROW && sqlite3_column_text(st, col))
        snprintf(ret, sizeof ret, "%s",
                 (const char *)sqlite3_column_text(st, col));
    else if (code == SQLITE_CONSTRAINT)
        snprintf(ret, sizeof ret, "clash");
    while (code == SQLITE_ROW)
        code = sqlite3_step(st);
    if (code == SQLITE_DONE && sqlite3_column_count(st) == 0)
        snprintf(ret, sizeof ret, "%d", sqlite3_changes(db));
    sqlite3_finalize(st);
    return ret;
}
#define P(...) ((const char *const[SQL_PARAMS]){__VA_ARGS__})

#define KEY "6b6579ff"
#define RID_A "AAAAAAAAAAAAAAAAAAAAAA"
#define RID_B "BBBBBBBBBBBBBBBBBBBBBA"
#define SID_A "CCCCCCCCCCCCCCCCCCCCCA"
#define SID_B "DDDDDDDDDDDDDDDDDDDDDA"
#define BEHIND(rid, sid) "." rid "." sid ".2.0.0.0.0.7"
#define JOIN_AS(rid, sid)                                                      \
    P(KEY, "2", "x", "|X", BEHIND(rid, sid), rid, sid, "1")

static void prepared(void)
{
    static sql_text texts[SQL_COUNT];
    sqlite3 *db = lite_open(texts, false, NULL);
    const char *params[SQL_PARAMS];

    for (size_t i = 0; i < SQL_PARAMS; i++)
        params[i] = "1";
    for (size_t id = 0; id < SQL_COUNT; id++)
        lite(db, texts, (sql_id)id, 0, params);
    sqlite3_close(db);
}

static void a_life(void)
{
    static sql_text t[SQL_COUNT];
    sqlite3 *db = lite_open(t, false, "%");
    const char *const *a = JOIN_AS(RID_A, SID_A), *const *b =
                                                      JOIN_AS(RID_B, SID_B);

    EXPECT_STR(lite(db, t, SQL_FIRST, 1, a), ""); /* no session */
    EXPECT_STR(
        lite(db, t, SQL_ATTACH, 3, P(SID_A, "9000000", "1", "h", "n", "")),
        "0");
    lite(db, t, SQL_ATTACH, 0, P(SID_B, "9000000", "1", "h", "n", ""));
    EXPECT_STR(lite(db, t, SQL_JOIN, 1, a), ""); /* no row */
    EXPECT_STR(lite(db, t, SQL_FIRST, 1, a), "|X1" BEHIND(RID_A, SID_A));
    EXPECT_STR(lite(db, t, SQL_FIRST, 1, b), "clash");
    EXPECT_STR(lite(db, t, SQL_JOIN, 1, a), ""); /* there already */
    EXPECT_STR(lite(db, t, SQL_TRY_X, 1, b), "");
    EXPECT_STR(lite(db, t, SQL_TRY_S, 1, b), "");
    EXPECT_STR(lite(db, t, SQL_JOIN, 1, b),
               "|X1" BEHIND(RID_A, SID_A) "|X3" BEHIND(RID_B, SID_B));
    EXPECT_STR(lite(db, t, SQL_LEAVE, 1,
                    P(KEY, "|X1" BEHIND(RID_A, SID_A), "y", SID_A)),
               "|X3" BEHIND(RID_B, SID_B));
    EXPECT_STR(lite(db, t, SQL_LEAVE, 1,
                    P(KEY, "|X1" BEHIND(RID_A, SID_A), "y", SID_A)),
               "");
    EXPECT_STR(lite(db, t, SQL_TOMB, 0, P(KEY, RID_A "." SID_A ";")), "1");
    EXPECT_STR(lite(db, t, SQL_JOIN, 1, a), "");
    /* Alive by the clock, so it is not evicted; renewed it is not as seen. */
    EXPECT_STR(lite(db, t, SQL_EVICT, 0, P(SID_B)), "0");
    EXPECT_STR(lite(db, t, SQL_RENEW, 3, P(SID_B, "9000000")), "1");
    EXPECT_STR(lite(db, t, SQL_EVICT_SEEN, 0, P(SID_B, "0")), "0");
    EXPECT_STR(lite(db, t, SQL_EVICT_SEEN, 0, P(SID_B, "1")), "1");
    EXPECT_STR(lite(db, t, SQL_RENEW, 3, P(SID_B, "9000000")), "");
    EXPECT_STR(lite(db, t, SQL_CUT, 1, P(KEY, "|X3" BEHIND(RID_B, SID_B))), "");
    EXPECT_STR(lite(db, t, SQL_JOIN, 1, b), ""); /* its session is over */
    EXPECT_STR(lite(db, t, SQL_TRY_X, 1, b), "");
    EXPECT_STR(lite(db, t, SQL_LOOK_HEAD, 0, P(KEY)), "4");
    sqlite3_close(db);
}

/* Without a clock: what is written stays until it is taken away. */
static void a_life_observed(void)
{
    static sql_text t[SQL_COUNT];
    sqlite3 *db = lite_open(t, true, "%");
    const char *const *a = JOIN_AS(RID_A, SID_A);

    EXPECT_STR(lite(db, t, SQL_ATTACH, 1, P(SID_A, "1", "1", "h", "n", "")),
               "0");
    EXPECT_STR(lite(db, t, SQL_FIRST, 1, a), "|X1" BEHIND(RID_A, SID_A));
    EXPECT_STR(lite(db, t, SQL_EVICT, 0, P(SID_A)), "0");
    EXPECT_STR(lite(db, t, SQL_STALE, 0, P("0")), "");
    EXPECT_STR(lite(db, t, SQL_IDLE, 0, P("0")), "");
    EXPECT_STR(lite(db, t, SQL_IN_USE, 0, P("0", "")), "");
    EXPECT_STR(lite(db, t, SQL_RENEW, 3, P(SID_A, "1")), "1");
    EXPECT_STR(lite(db, t, SQL_CHANGE, 1,
                    P(KEY, "|X1" BEHIND(RID_A, SID_A),
                      "|X1." RID_A "." SID_A ".2.0.5.", "5000", ".0.7")),
               "|X1." RID_A "." SID_A ".2.0.5.5000.0.7");
    EXPECT_STR(lite(db, t, SQL_EVICT_SEEN, 0, P(SID_A, "1")), "1");
    sqlite3_close(db);
}

/* Numbers begin above the clock, and go on above the last ones if that is set
 * back: a counter far ahead is never left. */
static void numbers_from_the_clock(void)
{
    static sql_text t[SQL_COUNT];
    sqlite3 *db = lite_open(t, false, NULL);
    const char *const *a = JOIN_AS(RID_A, SID_A), *const *b =
                                                      JOIN_AS(RID_B, SID_A);
    int64_t before = hfd_realtime_us() - 1000, first;

    lite(db, t, SQL_ATTACH, 0, P(SID_A, "9000000", "1", "h", "n", ""));
    first = strtoll(lite(db, t, SQL_FIRST, 0, a), NULL, 10);
    EXPECT(first > before && first < before + 60000000);
    EXPECT_EQ(sqlite3_exec(db, "UPDATE hf_queue SET counter = 7000000000000000",
                           NULL, NULL, NULL),
              SQLITE_OK);
    EXPECT_STR(lite(db, t, SQL_JOIN, 0, b), "7000000000000002");
    sqlite3_close(db);
}

#define TAKE_AS(num, last, rid, sid)                                           \
    P(KEY, last, "x", "|X" num BEHIND(rid, sid), num, rid, sid)

/* The short way: only an empty queue, only by who lives, only with a number
 * above the counter and the clock; and out of a queue that is nothing else. */
static void alone(void)
{
    static sql_text t[SQL_COUNT];
    sqlite3 *db = lite_open(t, false, NULL);
    const char *const *late =
        TAKE_AS("7000000000000001", "7000000000000002", RID_A, SID_A);
    const char *const *good =
        TAKE_AS("7000000000000003", "7000000000000004", RID_A, SID_A);
    const char *text = "|X7000000000000003" BEHIND(RID_A, SID_A);

    lite(db, t, SQL_ATTACH, 0, P(SID_A, "9000000", "1", "h", "n", ""));
    lite(db, t, SQL_CREATE, 0, P(KEY));
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, TAKE_AS("9", "10", RID_A, SID_A)), "0");
    EXPECT_STR(
        lite(db, t, SQL_TAKE, 0,
             TAKE_AS("7000000000000001", "7000000000000002", RID_B, SID_B)),
        "0");
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, late), "1");
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, good), "0"); /* not empty */
    EXPECT_STR(lite(db, t, SQL_LEAVE_ALONE, 0, P(KEY, text, SID_A)), "0");
    lite(db, t, SQL_CUT, 0, P(KEY, "|X7000000000000001" BEHIND(RID_A, SID_A)));
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, late), "0"); /* not above the last */
    lite(db, t, SQL_TOMB, 0, P(KEY, RID_A "." SID_A ";"));
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, good), "0");
    lite(db, t, SQL_UNTOMB, 0, P(KEY, RID_A "." SID_A ";"));
    EXPECT_STR(lite(db, t, SQL_TAKE, 0, good), "1");
    EXPECT_STR(lite(db, t, SQL_LOOK_HEAD, 0, P(KEY)), "7000000000000004");
    EXPECT_STR(lite(db, t, SQL_LEAVE_ALONE, 0, P(KEY, text, SID_B)), "0");
    lite(db, t, SQL_JOIN, 0, JOIN_AS(RID_B, SID_A));
    EXPECT_STR(lite(db, t, SQL_LEAVE_ALONE, 0, P(KEY, text, SID_A)), "0");
    lite(db, t, SQL_CUT, 0, P(KEY, "|X7000000000000005" BEHIND(RID_B, SID_A)));
    EXPECT_STR(lite(db, t, SQL_LEAVE_ALONE, 0, P(KEY, text, SID_A)), "1");
    EXPECT_STR(lite(db, t, SQL_LOOK_HEAD, 1, P(KEY)), "");
    sqlite3_close(db);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {TEST(words),
                                      TEST(tables_named),
                                      TEST(refused),
                                      TEST(overrides),
                                      TEST(observer),
                                      TEST(every_statement),
                                      TEST(prepared),
                                      TEST(a_life),
                                      TEST(a_life_observed),
                                      TEST(numbers_from_the_clock),
                                      TEST(alone)};

    return run_tests(argc, argv, "dialect", cases,
                     sizeof cases / sizeof *cases);
}
