/* server.c - a throwaway Redis server as a child of the test.
 *
 * A free port is found by binding port 0 and letting it go; somebody else may
 * take it before the server does, so a server that ends at once is started
 * again on another port, a few times.  "It answers" is asked through the Unix
 * socket in the server's own folder, where no other server can be met. */
#include "harness/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness/child.h"
#include "harness/expect.h"
#include "harness/runner.h"

enum { WORDS_MAX = 80, ASK_MS = 5000, START_MS = 10000 };

/* ---- Certificates ------------------------------------------------------- */

const char *test_certificates(void)
{
    static char folder[200], log[240];
    char *words[] = {(char[]){HF_HARNESS_DIR "/make-certs"}, folder, NULL};

    snprintf(folder, sizeof folder, "%s/certs", test_folder());
    if (access(folder, F_OK) == 0)
        return folder;
    snprintf(log, sizeof log, "%s/certs.log", test_folder());
    if (child_run(words, log, 20000) != 0) {
        child_show(log);
        FAIL_TEST("make-certs failed; is openssl installed?");
    }
    return folder;
}

/* ---- Words for the server ----------------------------------------------- */

typedef struct word_list {
    char *words[WORDS_MAX];
    int count;
    char text[8192];
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

static void add_pair(word_list *list, const char *name, const char *value)
{
    add_word(list, "--%s", name);
    add_word(list, "%s", value);
}

static void add_tls(word_list *list, const server *s)
{
    const char *certs = test_certificates();
    const char *which = s->options.expired      ? "expired"
                        : s->options.wrong_name ? "wrong"
                                                : "server";

    add_word(list, "--tls-port");
    add_word(list, "%d", s->tls_port);
    add_word(list, "--tls-ca-cert-file");
    add_word(list, "%s/ca.pem", certs);
    add_word(list, "--tls-cert-file");
    add_word(list, "%s/%s.pem", certs, which);
    add_word(list, "--tls-key-file");
    add_word(list, "%s/%s.key", certs, which);
    add_pair(list, "tls-auth-clients", s->options.tls_clients ? "yes" : "no");
}

static void make_words(word_list *list, const server *s)
{
    const server_options *opt = &s->options;

    add_word(list, "redis-server");
    add_word(list, "--port");
    add_word(list, "%d", s->port);
    add_pair(list, "bind", "127.0.0.1");
    add_pair(list, "dir", s->folder);
    add_pair(list, "unixsocket", s->socket);
    add_pair(list, "save", "");
    add_pair(list, "appendonly", opt->aof ? "yes" : "no");
    add_pair(list, "appendfsync", "always");
    add_pair(list, "daemonize", "no");
    add_pair(list, "enable-debug-command", "yes");
    if (opt->password)
        add_pair(list, "requirepass", opt->password);
    if (s->tls_port)
        add_tls(list, s);
    for (size_t i = 0; i < sizeof opt->more / sizeof *opt->more; i++) {
        if (!opt->more[i])
            break;
        add_word(list, "%s", opt->more[i]);
    }
}

/* ---- Starting and ending ------------------------------------------------ */

/* Until it speaks; LOADING is an answer, too.  False: it has ended. */
static bool await_answer(server *s)
{
    long long end = test_now_ms() + START_MS;

    while (test_now_ms() < end) {
        const char *said = NULL;

        if (child_ended(s->pid) >= 0) {
            s->pid = 0;
            return false;
        }
        if (access(s->socket, F_OK) == 0)
            said = server_ask(s, "PING");
        if (said && strncmp(said, "-LOADING", 8) != 0)
            return true;
        test_sleep_ms(2);
    }
    server_kill(s);
    return false;
}

static bool run_server(server *s)
{
    word_list *list = calloc(1, sizeof *list);
    char log[240];

    EXPECT(list != NULL);
    make_words(list, s);
    snprintf(log, sizeof log, "%s/log", s->folder);
    unlink(s->socket);
    s->pid = child_start(list->words, log);
    free(list);
    return await_answer(s);
}

static void never_came(const server *s)
{
    char log[240];

    snprintf(log, sizeof log, "%s/log", s->folder);
    child_show(log);
    FAIL_TEST("redis-server did not come up; is it installed?");
}

server *server_start(const server_options *opt)
{
    static int serial;
    server *s = calloc(1, sizeof *s);

    EXPECT(s != NULL);
    if (opt)
        s->options = *opt;
    snprintf(s->folder, sizeof s->folder, "%s/server-%d", test_folder(),
             serial++);
    snprintf(s->socket, sizeof s->socket, "%s/socket", s->folder);
    EXPECT(mkdir(s->folder, 0700) == 0);
    for (int attempt = 0; attempt < 5; attempt++) {
        s->port = child_port();
        if (s->options.tls || s->options.tls_clients)
            s->tls_port = child_port();
        if (run_server(s))
            return s;
    }
    never_came(s);
    return NULL;
}

static void end_server(server *s, int signal)
{
    if (s->pid)
        child_end(s->pid, signal);
    s->pid = 0;
}

void server_stop(server *s)
{
    if (!s)
        return;
    end_server(s, SIGTERM);
    free(s);
}

void server_kill(server *s)
{
    end_server(s, SIGKILL);
}

void server_terminate(server *s)
{
    end_server(s, SIGTERM);
}

void server_pause(server *s)
{
    EXPECT(kill(s->pid, SIGSTOP) == 0);
}

void server_continue(server *s)
{
    EXPECT(kill(s->pid, SIGCONT) == 0);
}

void server_restart(server *s, bool empty)
{
    char path[300];

    EXPECT_EQ(s->pid, 0);
    if (empty) {
        char *words[] = {(char[]){"rm"}, (char[]){"-rf"}, path, NULL};

        snprintf(path, sizeof path, "%s/appendonlydir", s->folder);
        EXPECT_EQ(child_run(words, "/dev/null", 20000), 0);
        snprintf(path, sizeof path, "%s/dump.rdb", s->folder);
        unlink(path);
    }
    /* Its old connections may hold the port for a moment. */
    for (int attempt = 0; attempt < 20; attempt++) {
        if (run_server(s))
            return;
        test_sleep_ms(50);
    }
    never_came(s);
}

/* ---- Asking it ---------------------------------------------------------- */

static __thread char answer[1 << 16]; /* a thread may sit in a long one */

static int connect_socket(const server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {ASK_MS / 1000, 0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = strlen(s->socket);

    EXPECT(fd >= 0 && len < sizeof address.sun_path);
    memcpy(address.sun_path, s->socket, len);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool send_words(int fd, const char *text)
{
    char out[4096], words[2048];
    size_t count = 0;
    int used = 0;
    char *rest = words;

    EXPECT(strlen(text) < sizeof words);
    memcpy(words, text, strlen(text) + 1);
    for (const char *p = text; *p; p++)
        count += *p != ' ' && (p[1] == ' ' || p[1] == '\0');
    used = snprintf(out, sizeof out, "*%zu\r\n", count);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (*word != '\0')
            used += snprintf(out + used, sizeof out - (size_t)used,
                             "$%zu\r\n%s\r\n", strlen(word), word);
        EXPECT((size_t)used < sizeof out);
    }
    return send(fd, out, (size_t)used, MSG_NOSIGNAL) == used;
}

/* One reply, as far as it fits; for a string without its head.  Arrays are
 * read until nothing more comes for a moment. */
static const char *read_answer(int fd)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
        char *line;

        if (n <= 0)
            return NULL;
        len += (size_t)n;
        answer[len] = '\0';
        line = strstr(answer, "\r\n");
        if (!line)
            continue;
        if (answer[0] == '*') {
            struct pollfd more = {.fd = fd, .events = POLLIN};

            if (poll(&more, 1, 20) == 0 || len == sizeof answer - 1)
                return answer;
        } else if (answer[0] == '$') {
            long size = strtol(answer + 1, NULL, 10);
            size_t head = (size_t)(line + 2 - answer);

            if (size < 0)
                return "";
            if (len < head + (size_t)size + 2 && len < sizeof answer - 1)
                continue;
            memmove(answer, answer + head, len - head + 1);
            answer[(size_t)size < len - head ? (size_t)size : len - head] =
                '\0';
            return answer;
        } else {
            *line = '\0';
            return answer[0] == '-' ? answer : answer + 1;
        }
    }
}

static const char *ask_text(server *s, const char *text)
{
    const char *said = NULL;
    char login[256];
    int fd = connect_socket(s);

    if (fd < 0)
        return NULL;
    snprintf(login, sizeof login, "AUTH %s",
             s->options.password ? s->options.password : "none");
    if (!s->options.password || (send_words(fd, login) && read_answer(fd))) {
        if (send_words(fd, text))
            said = read_answer(fd);
    }
    close(fd);
    return said;
}

const char *server_ask(server *s, const char *format, ...)
{
    char text[2048];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    EXPECT(len > 0 && (size_t)len < sizeof text);
    return ask_text(s, text);
}

long long server_number(server *s, const char *format, ...)
{
    char text[2048], *end = NULL;
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

const char *server_info(server *s, const char *field)
{
    static char value[256];
    char name[64];
    const char *all = ask_text(s, "INFO everything"), *at;

    value[0] = '\0';
    snprintf(name, sizeof name, "\n%s:", field);
    at = all ? strstr(all, name) : NULL;
    if (at) {
        at += strlen(name);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    return value;
}
