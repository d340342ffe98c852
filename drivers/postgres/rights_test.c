/* rights_test.c - the rights that postgres.md asks for are enough, and each of
 * them is needed.  The page itself is read: what it says is what is tried. */
#include "pg_test.h"

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

    snprintf(path, sizeof path, "%s/drivers/postgres/postgres.md",
             source ? source : ".");
    page = fopen(path, "r");
    if (!page)
        FAIL_TEST("cannot read %s: set HF_SOURCE_DIR", path);
    while (fgets(line, sizeof line, page)) {
        if (strncmp(line, "```", 3) == 0) {
            in = strcmp(line, "```sql\n") == 0;
        } else if (in) {
            EXPECT(line_count < LINES_MAX);
            line[strcspn(line, "\n")] = '\0';
            snprintf(lines[line_count++], sizeof lines[0], "%.299s", line);
        }
    }
    fclose(page);
    EXPECT(line_count >= 4);
}

static void emit_line(const char *line, void *user)
{
    FILE *to = user;

    fprintf(to, "%s\n", line);
}

static sql_conn *as_owner(sql_server *s)
{
    char url[200];

    snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/app", s->port);
    return conn_to(port_at(url, NULL));
}

static void end_conn(sql_conn *conn)
{
    sql_port *port = conn->port;

    port->class->disconnect(conn, false);
    port->class->close(port);
}

/* A database `app` with the tables, and a role `app` that may do nothing. */
static sql_server *prepare(void)
{
    sql_server *s =
        sql_server_start(ON_POSTGRES, &(sql_server_options){.tls = true});
    char *ddl = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&ddl, &len);
    sql_conn *conn;
    hf_error err;

    EXPECT_OK(hf_ddl("postgres:", false, emit_line, to, &err), err);
    fclose(to);
    sql_server_ask(s, "CREATE ROLE app LOGIN PASSWORD 's3cret'");
    sql_server_ask(s, "CREATE DATABASE app");
    conn = as_owner(s);
    ask(conn, "REVOKE ALL ON DATABASE app FROM public");
    ask(conn, "REVOKE ALL ON SCHEMA public FROM public");
    ask(conn, ddl);
    end_conn(conn);
    free(ddl);
    return s;
}

/* "GRANT x ON y TO app;" taken back. */
static void take_back(sql_conn *conn, const char *grant)
{
    const char *rest = grant + strlen("GRANT"), *to = strstr(grant, " TO app");
    char text[400];

    EXPECT(strncmp(grant, "GRANT ", 6) == 0 && to);
    snprintf(text, sizeof text, "REVOKE%.*s FROM app", (int)(to - rest), rest);
    ask(conn, text);
}

static int use_locks(sql_server *s, hf_error *err)
{
    char url[200];
    hf_session *session = NULL, *rival = NULL;
    hf_hold *hold = NULL;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .value = "v", .value_len = 1,
                           .wait_ms = 5000};
    hf_break_options now = {HF_BREAK_OPTIONS, .now = true};
    uint32_t broken = 0;
    int code;

    snprintf(url, sizeof url,
             "postgres://app:s3cret@127.0.0.1:%d/app?create=no&tls=yes"
             "&tls_verify=no",
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
        EXPECT_CODE(hf_try_lock(rival, "k", NULL, &hold, err), HF_EBUSY);
        EXPECT_OK(hf_break(rival, "k", &now, &broken, err), *err);
        EXPECT_EQ(broken, 1);
        hf_close(rival);
    }
    if (session)
        hf_close(session);
    return code;
}

static void the_page_is_enough(void)
{
    sql_server *s = prepare();
    sql_conn *conn = as_owner(s);
    hf_error err = {0};

    read_page();
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
    end_conn(conn);
    sql_server_stop(s);
}

/* A missing right is told by its name, not as a database that does not
 * answer. */
static void rowlock_says_what_it_may_not(void)
{
    sql_server *s = prepare();
    sql_conn *conn = as_owner(s);
    hf_session *session = NULL;
    hf_hold *hold = NULL;
    hf_error err = {0};
    char url[200];

    ask(conn, "CREATE TABLE distribute_lock (id SERIAL PRIMARY KEY,"
              " business_code VARCHAR(100) NOT NULL UNIQUE,"
              " business_name VARCHAR(100) NOT NULL)");
    ask(conn, "GRANT CONNECT ON DATABASE app TO app");
    ask(conn, "GRANT USAGE ON SCHEMA public TO app");
    ask(conn, "GRANT SELECT, UPDATE ON distribute_lock TO app");
    snprintf(url, sizeof url,
             "postgres://app:s3cret@127.0.0.1:%d/app?create=no&tls=yes"
             "&tls_verify=no&format=rowlock",
             s->port);
    EXPECT_OK(hf_open(&session, url, NULL, &err), err);
    EXPECT_CODE(hf_try_lock(session, "job", NULL, &hold, &err), HF_EPERM);
    EXPECT_HAS(err.text, "distribute_lock");
    ask(conn, "GRANT INSERT ON distribute_lock TO app");
    ask(conn, "GRANT USAGE ON SEQUENCE distribute_lock_id_seq TO app");
    EXPECT_OK(hf_try_lock(session, "job", NULL, &hold, &err), err);
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(session);
    end_conn(conn);
    sql_server_stop(s);
}

static const test_case cases[] = {TEST(the_page_is_enough),
                                  TEST(rowlock_says_what_it_may_not)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "rights", cases, sizeof cases / sizeof *cases);
}
