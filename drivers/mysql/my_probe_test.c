/* my_probe_test.c - what doctor says about a MariaDB or MySQL server: from
 * facts, and from a server that has them. */
#include "my_test.h"
#include "probe.h"

typedef struct report {
    hf_level level[32];
    char name[32][24], text[32][400];
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

/* The level of a finding; -1: there is none. */
static int level_of(const my_facts *f, const char *name)
{
    report r = {.count = 0};

    my_judge_facts(f, note, &r);
    for (int i = 0; i < r.count; i++) {
        if (strcmp(r.name[i], name) == 0)
            return (int)r.level[i];
    }
    return -1;
}

static my_facts good(void)
{
    return (my_facts){.local = true,
                      .native = true,
                      .returning = true,
                      .lease = HF_MS(30000),
                      .mariadb = true,
                      .version = "10.11.19-MariaDB",
                      .version_number = 101119,
                      .account = "app@%",
                      .galera = "OFF",
                      .read_only = "OFF",
                      .binlog = "ON",
                      .binlog_format = "MIXED",
                      .doublewrite = "ON",
                      .semi_sync = "OFF",
                      .flush = 1,
                      .sync_binlog = 1,
                      .replicas = 0,
                      .wait_s = 28800,
                      .connections = 4,
                      .connected = 3,
                      .most_connections = 151};
}

static void a_good_server(void)
{
    my_facts f = good();
    report r = {.count = 0};

    my_judge_facts(&f, note, &r);
    EXPECT(r.count >= 5);
    for (int i = 0; i < r.count; i++)
        EXPECT_EQ(r.level[i], HF_FINE);
}

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)
#define BAD(name, expected, change)                                            \
    do {                                                                       \
        my_facts f = good();                                                   \
        EXPECT(level_of(&f, name) != (int)(expected));                         \
        change;                                                                \
        EXPECT_EQ(level_of(&f, name), (expected));                             \
    } while (0)

static void bad_servers(void)
{
    BAD("version", HF_WARN, f.version_number = 100200);
    BAD("version", HF_WARN, f.mariadb = false; f.version_number = 50651);
    BAD("role", HF_FAIL, SET(f.read_only, "ON"));
    BAD("galera", HF_FAIL, SET(f.galera, "ON"));
    BAD("flush", HF_WARN, f.flush = 2);
    BAD("flush", HF_WARN, f.flush = 0);
    BAD("flush", HF_WARN, f.sync_binlog = 0);
    BAD("doublewrite", HF_WARN, SET(f.doublewrite, "OFF"));
    BAD("binlog_format", HF_FAIL, SET(f.binlog_format, "STATEMENT"));
    BAD("replicas", HF_WARN, f.replicas = 1);
    BAD("replicas", HF_WARN, f.replicas = 1; SET(f.semi_sync, "ON");
        SET(f.semi_sync_now, "OFF"));
    BAD("replicas", HF_FINE, f.replicas = 1; f.strict = true);
    BAD("replicas", HF_FINE, f.replicas = 1; SET(f.semi_sync, "ON");
        SET(f.semi_sync_now, "ON"));
    BAD("max_connections", HF_WARN, f.connected = 148);
    BAD("max_user_connections", HF_WARN, f.most_of_account = 3);
    BAD("wait_timeout", HF_WARN, f.wait_s = 30);
    BAD("account", HF_WARN, SET(f.account, "root@localhost"));
    BAD("engine", HF_FAIL, f.other_engines = 1);
    BAD("tls", HF_WARN, f.local = false);
    BAD("tls", HF_WARN, f.local = false; f.tls = true);
}

/* No binary log: its settings mean nothing. */
static void no_binary_log(void)
{
    my_facts f = good();

    SET(f.binlog, "OFF");
    SET(f.binlog_format, "STATEMENT");
    f.sync_binlog = 0;
    EXPECT_EQ(level_of(&f, "flush"), HF_FINE);
    EXPECT_EQ(level_of(&f, "binlog_format"), -1);
}

static void a_real_server(void)
{
    static const char *const more[] = {
        "--log-bin=binlog",  "--server-id=7",        "--sync-binlog=0",
        "--wait-timeout=45", "--max-connections=20", NULL};
    sql_server_options opt = {0};
    sql_server *s;
    sql_port *port;
    sql_conn *conn;
    my_facts f;
    hf_error err;

    for (int i = 0; more[i]; i++)
        opt.more[i] = more[i];
    s = sql_server_start(ON_MARIADB, &opt);
    sql_server_ask(s, "CREATE TABLE holdfast.hf_queue(n INT) ENGINE=MyISAM");
    port = port_at(sql_server_url(s, "", ""), NULL);
    conn = conn_to(port);
    if (!my_ask_facts(conn, "", "hf_", in_ms(5000), &f, &err))
        FAIL_TEST("%s", err.text);
    EXPECT(f.mariadb && f.version_number >= 100300);
    EXPECT_HAS(f.version, "MariaDB");
    EXPECT_HAS(f.account, "root@");
    EXPECT_STR(f.binlog, "ON");
    EXPECT_STR(f.read_only, "OFF");
    EXPECT_EQ(f.sync_binlog, 0);
    EXPECT_EQ(f.wait_s, 45);
    EXPECT_EQ(f.most_connections, 20);
    EXPECT_EQ(f.replicas, 0);
    EXPECT_EQ(f.other_engines, 1);
    EXPECT(f.connected >= 1 && f.flush >= 0);
    EXPECT(f.local && !f.verified);
    f.native = true;
    EXPECT_EQ(level_of(&f, "engine"), HF_FAIL);
    EXPECT_EQ(level_of(&f, "wait_timeout"), HF_WARN);
    leave(port, conn);
    sql_server_stop(s);
}

static const test_case cases[] = {TEST(a_good_server), TEST(bad_servers),
                                  TEST(no_binary_log), TEST(a_real_server)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_probe", cases,
                     sizeof cases / sizeof *cases);
}
