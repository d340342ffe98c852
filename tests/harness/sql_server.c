/* sql_server.c - a throwaway database server as a child of the test.
 *
 * What is different between the servers, and how one becomes an account that
 * is not root, stands in the script sql-server; here is the life of one.  A
 * server has come up when its log says so: asking it would need a client.
 *
 * PostgreSQL is a tree of processes.  To pause it or to kill it at one blow
 * the first of them is stopped, so that no more are born, and then every child
 * gets the signal. */
#include "harness/sql_server.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"
#include "harness/server.h"

enum { WORDS_MAX = 40, START_MS = 30000, ASK_MS = 5000, TEXT_MAX = 8192 };

static const struct kind_words {
    const char *name, *scheme, *superuser, *ready;
} kinds[] = {
    [ON_POSTGRES] = {"postgres", "postgres", "postgres", "ready to accept "},
    [ON_MARIADB] = {"mariadb", "mysql", "root", "ready for connections"},
    [ON_PGBOUNCER] = {"pgbouncer", "postgres", "postgres", "process up"},
};

/* ---- Its processes ------------------------------------------------------ */

/* A signal to each child of the first process. */
static void signal_children(pid_t pid, int signal)
{
    char path[64], line[32];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    f = fopen(path, "re");
    EXPECT(f != NULL);
    while (fscanf(f, "%31s", line) == 1)
        kill((pid_t)strtol(line, NULL, 10), signal);
    fclose(f);
}

static void end_first(sql_server *s, int signal)
{
    if (s->pid)
        child_end(s->pid, signal);
    s->pid = 0;
}

void sql_server_kill(sql_server *s)
{
    if (!s->pid)
        return;
    sql_server_pause(s);
    signal_children(s->pid, SIGKILL);
    kill(s->pid, SIGKILL); /* before the CONT of end_first */
    end_first(s, SIGKILL);
}

void sql_server_terminate(sql_server *s)
{
    if (s->pid && s->kind == ON_POSTGRES)
        sql_server_continue(s);
    /* PostgreSQL: the fast shutdown, which does not wait for clients. */
    end_first(s, s->kind == ON_POSTGRES ? SIGINT : SIGTERM);
}

/* Does every thread of it stand still?  One that has just gone does, too. */
static bool stands_still(pid_t pid)
{
    char path[300], line[400];
    struct dirent *entry;
    bool still = true;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    tasks = opendir(path);
    while (tasks && (entry = readdir(tasks)) != NULL) {
        FILE *f;

        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", pid,
                 entry->d_name);
        f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f && fgets(line, sizeof line, f) && strrchr(line, ')'))
            still = still && strchr("TtZX", strrchr(line, ')')[2]) != NULL;
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return still;
}

void sql_server_pause(sql_server *s)
{
    EXPECT(kill(s->pid, SIGSTOP) == 0);
    signal_children(s->pid, SIGSTOP);
    /* The signal is there at once; a thread that runs meets it later. */
    EXPECT(WAIT_FOR(stands_still(s->pid), 5000));
}

void sql_server_continue(sql_server *s)
{
    signal_children(s->pid, SIGCONT);
    EXPECT(kill(s->pid, SIGCONT) == 0);
}

/* A PostgreSQL that was killed and is not started again leaves a segment of
 * System V memory, whose number is in its pid file. */
static void remove_memory(const sql_server *s)
{
    char path[300], line[200] = "";
    int id = -1;
    FILE *f;

    snprintf(path, sizeof path, "%s/data/postmaster.pid", s->folder);
    f = fopen(path, "re");
    for (int i = 0; f && i < 7 && fgets(line, sizeof line, f); i++) {
        if (i == 6 && sscanf(line, "%*u %d", &id) == 1)
            shmctl(id, IPC_RMID, NULL);
    }
    if (f)
        fclose(f);
}

void sql_server_stop(sql_server *s)
{
    if (!s)
        return;
    if (s->kind == ON_POSTGRES && s->pid) {
        sql_server_continue(s);
        end_first(s, SIGQUIT);
    } else if (s->kind == ON_POSTGRES) {
        remove_memory(s);
    } else {
        end_first(s, SIGKILL);
    }
    free(s);
}

/* ---- Starting ----------------------------------------------------------- */

typedef struct word_list {
    char *words[WORDS_MAX];
    int count;
    char text[TEXT_MAX];
    size_t used;
} word_list;

static void add_word(word_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_word(word_list *list, const char *format, ...)
{
    va_list args;
    size_t room = sizeof list->text - list->used;
    int len;

    va_start(args, format);
    len = vsnprintf(list->text + list->used, room, format, args);
    va_end(args);
    EXPECT(len >= 0 && (size_t)len < room && list->count < WORDS_MAX - 1);
    list->words[list->count++] = list->text + list->used;
    list->used += (size_t)len + 1;
}

static void make_words(word_list *list, const sql_server *s)
{
    const sql_server_options *opt = &s->options;

    add_word(list, "env");
    if (opt->tls || opt->wrong_name) {
        add_word(list, "HF_SQL_CERTS=%s", test_certificates());
        add_word(list, "HF_SQL_CERT=%s",
                 opt->expired      ? "expired"
                 : opt->wrong_name ? "wrong"
                                   : "server");
    }
    if (opt->copies)
        add_word(list, "HF_SQL_COPY_OF=%d", opt->copies->port);
    if (opt->disk_mb)
        add_word(list, "HF_SQL_DISK_MB=%d", opt->disk_mb);
    add_word(list, "%s/sql-server", HF_HARNESS_DIR);
    add_word(list, "%s", kinds[s->kind].name);
    add_word(list, "%s", s->folder);
    add_word(list, "%d", s->port);
    if (s->kind == ON_PGBOUNCER)
        add_word(list, "%d", opt->behind->port);
    for (size_t i = 0; i < sizeof opt->more / sizeof *opt->more; i++) {
        if (!opt->more[i])
            break;
        add_word(list, "%s", opt->more[i]);
    }
}

static bool says_ready(const sql_server *s)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen(s->log, "re");

    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, kinds[s->kind].ready) != NULL;
    if (f)
        fclose(f);
    return found;
}

/* False: it has ended. */
static bool run_server(sql_server *s)
{
    long long end = test_now_ms() + START_MS;
    word_list *list = calloc(1, sizeof *list);

    EXPECT(list != NULL);
    make_words(list, s);
    unlink(s->log);
    s->pid = child_start(list->words, s->log);
    free(list);
    while (test_now_ms() < end) {
        if (says_ready(s))
            return true;
        if (child_ended(s->pid) >= 0) {
            s->pid = 0;
            return false;
        }
        test_sleep_ms(5);
    }
    sql_server_kill(s);
    return false;
}

static void never_came(const sql_server *s)
{
    child_show(s->log);
    FAIL_TEST("%s did not come up; is it installed?", kinds[s->kind].name);
}

sql_server *sql_server_start(sql_server_kind kind,
                             const sql_server_options *opt)
{
    static int serial;
    sql_server *s = calloc(1, sizeof *s);

    EXPECT(s != NULL);
    s->kind = kind;
    if (opt)
        s->options = *opt;
    if (s->options.disk_mb && getuid() != 0)
        skip_test("needs root, for a small disk");
    /* The servers' accounts must get through to their folders. */
    EXPECT(chmod(test_folder(), 0711) == 0);
    snprintf(s->folder, sizeof s->folder, "%s/sql-%d", test_folder(), serial);
    snprintf(s->log, sizeof s->log, "%s/sql-%d.log", test_folder(), serial++);
    for (int attempt = 0; attempt < 5; attempt++) {
        s->port = child_port();
        if (run_server(s))
            return s;
    }
    never_came(s);
    return NULL;
}

void sql_server_restart(sql_server *s)
{
    EXPECT_EQ(s->pid, 0);
    /* Its old connections may hold the port for a moment, its old processes
     * the shared memory. */
    for (int attempt = 0; attempt < 50; attempt++) {
        if (run_server(s))
            return;
        test_sleep_ms(50);
    }
    never_came(s);
}

/* ---- Asking it ---------------------------------------------------------- */

static __thread char answer[1 << 16];

static void make_question(word_list *list, const sql_server *s,
                          const char *text)
{
    if (s->kind == ON_MARIADB) {
        add_word(list, "mariadb");
        add_word(list, "--no-defaults");
        add_word(list, "--socket=%s/socket", s->folder);
        add_word(list, "-uroot");
        add_word(list, "-NBrD");
        add_word(list, "holdfast");
        add_word(list, "-e");
    } else {
        add_word(list, "psql");
        add_word(list, "-XAtq");
        add_word(list, "-h127.0.0.1");
        add_word(list, "-p%d", s->port);
        add_word(list, "-Upostgres");
        add_word(list, "-dholdfast");
        add_word(list, "-c");
    }
    add_word(list, "%s", text);
}

static const char *ask_text(sql_server *s, const char *text)
{
    static int serial;
    char path[300];
    word_list *list = calloc(1, sizeof *list);
    int status;
    size_t len = 1;
    FILE *f;

    EXPECT(list != NULL);
    snprintf(path, sizeof path, "%s.said-%d", s->log,
             __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED));
    make_question(list, s, text);
    status = child_run(list->words, path, ASK_MS);
    free(list);
    answer[0] = '-';
    f = fopen(path, "re");
    if (f) {
        len += fread(answer + 1, 1, sizeof answer - 2, f);
        fclose(f);
    }
    unlink(path);
    if (len > 1 && answer[len - 1] == '\n')
        len--;
    answer[len] = '\0';
    return status < 0 ? NULL : status == 0 ? answer + 1 : answer;
}

const char *sql_server_ask(sql_server *s, const char *format, ...)
{
    char text[4096];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    EXPECT(len > 0 && (size_t)len < sizeof text);
    return ask_text(s, text);
}

long long sql_server_number(sql_server *s, const char *format, ...)
{
    char text[4096], *end = NULL;
    const char *said;
    long long number;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    said = ask_text(s, text);
    if (!said || said[0] == '-')
        FAIL_TEST("'%s' was answered '%s'", text, said ? said : "nothing");
    number = strtoll(said, &end, 10);
    EXPECT(*said != '\0' && *end == '\0');
    return number;
}

void sql_server_promote(sql_server *copy)
{
    sql_server_ask(copy, "SELECT pg_promote(false)");
    EXPECT(WAIT_FOR(
        sql_server_number(copy, "SELECT pg_is_in_recovery()::int") == 0,
        START_MS));
}

const char *sql_server_url(sql_server *s, const char *user, const char *query)
{
    static char urls[32][500];
    static unsigned next;
    char *url = urls[next++ % 32];
    int len;

    len =
        snprintf(url, sizeof urls[0], "%s://%s@127.0.0.1:%d/holdfast%s%s",
                 kinds[s->kind].scheme, *user ? user : kinds[s->kind].superuser,
                 s->port, *query ? "?" : "", query);
    EXPECT(len > 0 && (size_t)len < sizeof urls[0]);
    return url;
}
