/* probe_test.c - what doctor says about a PostgreSQL server: from facts, and
 * from servers that have them. */
#include "pg_test.h"
#include "probe.h"

typedef struct report {
    hf_level level[32];
    char name[32][20], text[32][300];
    int count;
} report;

static void note(hf_level level, const char *name, const char *text, void *user)
{
    report *r = user;

    EXPECT(r->count < 32);
    EXPECT(!strchr(name, ' ') && !strchr(text, '\n'));
    r->level[r->count] = level;
    snprintf(r->name[r->count], sizeof r->name[0], "%s", name);
    snprintf(r->text[r->count++], sizeof r->text[0], "%s", text);
}

/* The level of a finding; 0: there is none. */
static int level_of(const pg_facts *f, const char *name)
{
    report r = {.count = 0};

    pg_judge_facts(f, note, &r);
    for (int i = 0; i < r.count; i++) {
        if (strcmp(r.name[i], name) == 0)
            return r.level[i];
    }
    return -1;
}

static pg_facts good(void)
{
    return (pg_facts){.local = true,
                      .lease = HF_MS(30000),
                      .version = "15.18",
                      .version_number = 150018,
                      .fsync = true,
                      .full_pages = true,
                      .commit = "on",
                      .isolation = "read committed",
                      .connections = 3,
                      .connection_limit = 100};
}

static void a_good_server(void)
{
    pg_facts f = good();
    report r = {.count = 0};

    pg_judge_facts(&f, note, &r);
    EXPECT(r.count >= 5);
    for (int i = 0; i < r.count; i++)
        EXPECT_EQ(r.level[i], HF_FINE);
}

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)
#define BAD(name, expected, change)                                            \
    do {                                                                       \
        pg_facts f = good();                                                   \
        EXPECT(level_of(&f, name) != (int)(expected));                         \
        change;                                                                \
        EXPECT_EQ(level_of(&f, name), (expected));                             \
    } while (0)

static void bad_servers(void)
{
    BAD("version", HF_WARN, f.version_number = 110022);
    BAD("role", HF_FAIL, f.standby = true);
    BAD("durability", HF_FAIL, f.fsync = false);
    BAD("durability", HF_FAIL, f.full_pages = false);
    BAD("durability", HF_WARN, SET(f.commit, "off"));
    BAD("durability", HF_WARN, SET(f.commit, "remote_write"));
    BAD("unlogged", HF_FAIL, f.unlogged = 1);
    BAD("failover", HF_WARN, f.copies = 1);
    BAD("pooler", HF_WARN, f.pooled = true);
    BAD("timeouts", HF_WARN, (f.pooled = true, f.statement_ms = 100));
    BAD("isolation", HF_WARN,
        (f.pooled = true, SET(f.isolation, "serializable")));
    BAD("room", HF_WARN, f.connections = 95);
    BAD("bloat", HF_WARN, f.dead_rows = 200000);
    BAD("tls", HF_WARN, f.local = false);
    BAD("tls", HF_WARN, (f.local = false, f.tls = true));
    BAD("tls", HF_FINE, (f.local = false, f.tls = true, f.verified = true));
}

static void covered_failover(void)
{
    pg_facts f = good();

    f.copies = 2;
    f.strict = true;
    EXPECT_EQ(level_of(&f, "failover"), HF_FINE);
    f.strict = false;
    f.copies_waited_for = true;
    EXPECT_EQ(level_of(&f, "failover"), HF_FINE);
}

static void facts_of_a_server(void)
{
    sql_server *s = sql_server_start(
        ON_POSTGRES, &(sql_server_options){.more = {"-c", "fsync=on", "-c",
                                                    "full_page_writes=off"}});
    sql_server *copy;
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    hf_error err = {0};
    pg_facts f;

    sql_server_ask(s, "CREATE UNLOGGED TABLE hf_queue(n int);"
                      "INSERT INTO hf_queue SELECT generate_series(1, 9)");
    AWAIT(pg_ask_facts(conn, "", "hf_", in_ms(5000), &f, &err) &&
          f.live_rows == 9);
    EXPECT(f.version_number >= 120000 && f.version[0]);
    EXPECT(!f.standby && f.fsync && !f.full_pages && f.local && !f.tls);
    EXPECT_STR(f.commit, "on");
    EXPECT_STR(f.isolation, "read committed");
    EXPECT_EQ(f.copies, 0);
    EXPECT_EQ(f.unlogged, 1);
    EXPECT_EQ(f.statement_ms, PG_STATEMENT_MS);
    EXPECT_EQ(f.dead_rows, 0);
    EXPECT(f.connections >= 1 && f.connection_limit > f.connections);
    EXPECT(!f.pooled);
    copy = sql_server_start(ON_POSTGRES, &(sql_server_options){.copies = s});
    AWAIT(pg_ask_facts(conn, "", "hf_", in_ms(5000), &f, &err) &&
          f.copies == 1);
    EXPECT(!f.copies_waited_for);
    sql_server_stop(copy);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(s);
}

static void facts_through_a_pooler(void)
{
    sql_server *s = sql_server_start(ON_POSTGRES, NULL);
    sql_server *pooler =
        sql_server_start(ON_PGBOUNCER, &(sql_server_options){.behind = s});
    sql_port *port = port_at(sql_server_url(pooler, "", ""), NULL);
    sql_conn *conn;
    hf_error err = {0};
    pg_facts f;

    sql_server_ask(s, "ALTER ROLE postgres SET synchronous_commit = off;"
                      "ALTER ROLE postgres SET statement_timeout = 7777");
    conn = conn_to(port);
    EXPECT(pg_ask_facts(conn, "", "hf_", in_ms(5000), &f, &err));
    EXPECT(f.pooled);
    EXPECT_STR(f.commit, "off");
    EXPECT_EQ(f.statement_ms, 7777);
    port->class->disconnect(conn, false);
    port->class->close(port);
    sql_server_stop(pooler);
    sql_server_stop(s);
}

static const test_case cases[] = {
    TEST(a_good_server), TEST(bad_servers), TEST(covered_failover),
    TEST(facts_of_a_server), TEST(facts_through_a_pooler)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "probe", cases, sizeof cases / sizeof *cases);
}
