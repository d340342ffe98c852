/* my_rights_test.c - the rights that mysql.md asks for are enough, and each of
 * them is needed.  The page itself is read: what it says is what is tried. */
#include "my_test.h"

#include <holdfast/holdfast.h>

enum { LINES_MAX = 12 };

static char lines[LINES_MAX][300];
static int line_count;

/* The lines of the page's only SQL. */
static void read_page(void)
{
    const char *source = getenv("HF_SOURCE_DIR");
    char path[400], line[300];
    bool in = false;
    FILE *page;

    snprintf(path, sizeof path, "%s/drivers/mysql/mysql.md",
             source ? source : ".");
    page = fopen(path, "r");
    if (!page)
        FAIL_TEST("cannot read %s: set HF_SOURCE_DIR", path);
    while (fgets(line, sizeof line, page)) {
        if (strncmp(line, "```", 3) == 0) {
            in = strcmp(line, "```sql\n") == 0;
        } else if (in) {
            EXPECT(line_count < LINES_MAX);
            line[strcspn(line, ";\n")] = '\0';
            snprintf(lines[line_count++], sizeof lines[0], "%.299s", line);
        }
    }
    fclose(page);
    EXPECT(line_count >= 4);
}

/* What the page calls a pipe to the client. */
static void make_tables(sql_conn *conn)
{
    hf_error err;

    for (const char *const *at = conn->port->dialect->tables; *at; at++) {
        static char text[SQL_TEXT_MAX];

        EXPECT_OK(
            sql_render_one(text, conn->port->dialect, "app", "hf_", *at, &err),
            err);
        ask(conn, text);
    }
}

static int use_locks(sql_server *s, hf_error *err)
{
    char url[200];
    hf_session *session = NULL, *rival = NULL;
    hf_hold *hold = NULL, *other = NULL;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .value = "v", .value_len = 1,
                           .wait_ms = 5000};
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    uint32_t broken = 0;
    int code;

    snprintf(url, sizeof url, "mysql://app:s3cret@127.0.0.1:%d/app?create=no",
             s->port);
    code = hf_open(&session, url, NULL, err);
    if (code == 0)
        code = hf_lock(session, "k", &opt, &hold, err);
    if (code == 0)
        code = hf_publish(hold, "w", 1, err);
    if (code == 0)
        code = hf_renew(hold, err);
    if (code == 0) {
        EXPECT_OK(hf_open(&rival, url, NULL, err), *err);
        EXPECT_CODE(hf_try_lock(rival, "k", NULL, &other, err), HF_EBUSY);
        EXPECT_OK(hf_break(rival, "k", &now, &broken, err), *err);
        EXPECT_EQ(broken, 1);
        hf_close(rival);
    }
    if (session)
        hf_close(session);
    return code;
}

/* "GRANT x ON y TO app" taken back. */
static void take_back(sql_conn *conn, const char *grant)
{
    const char *rest = grant + strlen("GRANT"), *to = strstr(grant, " TO app");
    char text[400];

    EXPECT(strncmp(grant, "GRANT ", 6) == 0 && to);
    snprintf(text, sizeof text, "REVOKE%.*s FROM app", (int)(to - rest), rest);
    ask(conn, text);
}

static void the_page_is_enough(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    hf_error err = {0};

    read_page();
    ask(conn, "CREATE DATABASE app");
    ask(conn, "CREATE USER app IDENTIFIED BY 's3cret'");
    make_tables(conn);
    EXPECT_CODE(use_locks(s, &err), HF_EPERM);
    EXPECT_HAS(err.text, "grants");
    for (int i = 0; i < line_count; i++)
        ask(conn, lines[i]);
    EXPECT_OK(use_locks(s, &err), err);
    for (int i = 0; i < line_count; i++) {
        take_back(conn, lines[i]);
        if (use_locks(s, &err) == 0)
            FAIL_TEST("not needed: %s", lines[i]);
        ask(conn, lines[i]);
        EXPECT_OK(use_locks(s, &err), err);
    }
    leave(port, conn);
    sql_server_stop(s);
}

/* A missing right is told by its name, not as a database that does not
 * answer. */
static void rowlock_says_what_it_may_not(void)
{
    sql_server *s = sql_server_start(ON_MARIADB, NULL);
    sql_port *port = port_at(sql_server_url(s, "", ""), NULL);
    sql_conn *conn = conn_to(port);
    hf_session *session = NULL;
    hf_hold *hold = NULL;
    hf_error err = {0};
    char url[200];

    ask(conn, "CREATE DATABASE app");
    ask(conn, "CREATE USER app IDENTIFIED BY 's3cret'");
    ask(conn, "CREATE TABLE app.distribute_lock (id INT NOT NULL AUTO_INCREMENT"
              " PRIMARY KEY, business_code VARCHAR(100) NOT NULL UNIQUE,"
              " business_name VARCHAR(100) NOT NULL) ENGINE=InnoDB");
    ask(conn, "GRANT SELECT, UPDATE ON app.distribute_lock TO app");
    snprintf(url, sizeof url,
             "mysql://app:s3cret@127.0.0.1:%d/app?create=no&format=rowlock",
             s->port);
    EXPECT_OK(hf_open(&session, url, NULL, &err), err);
    EXPECT_CODE(hf_try_lock(session, "job", NULL, &hold, &err), HF_EPERM);
    EXPECT_HAS(err.text, "INSERT");
    ask(conn, "GRANT INSERT ON app.distribute_lock TO app");
    EXPECT_OK(hf_try_lock(session, "job", NULL, &hold, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(session);
    leave(port, conn);
    sql_server_stop(s);
}

static const test_case cases[] = {TEST_LIMIT(the_page_is_enough, 120),
                                  TEST(rowlock_says_what_it_may_not)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "my_rights", cases,
                     sizeof cases / sizeof *cases);
}
