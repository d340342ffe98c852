/* worker.c - holdfast's part in a mixed run with other libraries.
 *
 * Takes one key again and again with the layout that the others share
 * (format=simple), and writes down when it asked, had it and gave it.  Inside
 * the section it raises a counter in the store that must then be 1, and lowers
 * it: the witness that no clock is needed for.  worker.py and worker.mjs do the
 * same, word for word:
 *
 *     worker PORT[,PORT...] KEY TARGET LEAST LOG
 *
 * Several ports are several servers with a vote each (redlock://); the last of
 * them is also the witness.  Then a server may die while a lock is held, and
 * its release be unknown; that is written down like any other.
 *
 * It says `ready`, waits for a line, and goes on until all workers together
 * have TARGET sections and it has LEAST of its own. */
#include <errno.h>
#include <holdfast/holdfast.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_SECONDS 45
#define LEASE_MS 5000 /* of a vote: what is left behind holds up the others */

static void die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* The same clock in all processes and languages of this test. */
static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pause_us(long us)
{
    struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
}

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        die("cannot connect to port %d: %s", port, strerror(errno));
    return fd;
}

/* INCR or DECR of a counter, past the library. */
static long long count(int fd, const char *command, const char *name)
{
    char text[128];
    size_t n = 0;
    int len = snprintf(text, sizeof text, "%s %s\r\n", command, name);

    if (write(fd, text, (size_t)len) != len)
        die("cannot write to the server");
    while (n < 2 || text[n - 1] != '\n') {
        ssize_t got = read(fd, text + n, sizeof text - n - 1);

        if (got <= 0)
            die("cannot read from the server");
        n += (size_t)got;
    }
    text[n] = '\0';
    if (text[0] != ':')
        die("%s %s answered %s", command, name, text);
    return strtoll(text + 1, NULL, 10);
}

/* One section; returns how many there were of all workers. */
static long long run_section(hf_session *s, int fd, const char *key, FILE *log)
{
    long long asked = now_ns(), got, gave, inside, all;
    hf_hold *hold;
    hf_error err;

    if (hf_lock(s, key, NULL, &hold, &err) != 0)
        die("hf_lock: %s", err.text);
    got = now_ns();
    inside = count(fd, "INCR", "inside");
    all = count(fd, "INCR", "sections");
    pause_us(200);
    count(fd, "DECR", "inside");
    gave = now_ns();
    if (hf_release(hold, &err) != 0 && err.code != HF_EUNKNOWN)
        die("hf_release: %s", err.text);
    fprintf(log, "%lld %lld %lld %lld\n", asked, got, gave, inside);
    return all;
}

/* "7001,7002" is redlock://127.0.0.1:7001,127.0.0.1:7002. */
static int open_session(hf_session **ret, const char *ports, hf_error *err)
{
    hf_open_options opt = {HF_OPEN_OPTIONS};
    char url[256];
    int len;

    if (strchr(ports, ',') == NULL) {
        snprintf(url, sizeof url, "redis://127.0.0.1:%s?format=simple", ports);
        return hf_open(ret, url, &opt, err);
    }
    opt.lease_ms = LEASE_MS;
    len = snprintf(url, sizeof url, "redlock://");
    while (ports != NULL) {
        len += snprintf(url + len, sizeof url - (size_t)len, "127.0.0.1:%d",
                        atoi(ports));
        ports = strchr(ports, ',');
        if (ports != NULL) {
            ports++;
            len += snprintf(url + len, sizeof url - (size_t)len, ",");
        }
    }
    return hf_open(ret, url, &opt, err);
}

int main(int argc, char **argv)
{
    const char *more = getenv("PEERS_SECONDS"), *witness;
    long long all = 0,
              end = now_ns() + (more ? atoi(more) : MAX_SECONDS) * 1000000000LL;
    long target, least, own = 0;
    unsigned seed = (unsigned)getpid();
    hf_session *session;
    hf_error err;
    FILE *log;
    int fd;

    if (argc != 6)
        die("usage: worker PORT[,PORT...] KEY TARGET LEAST LOG");
    target = strtol(argv[3], NULL, 10);
    least = strtol(argv[4], NULL, 10);
    log = fopen(argv[5], "we");
    if (log == NULL)
        die("cannot write '%s'", argv[5]);
    witness = strrchr(argv[1], ',');
    fd = connect_to(atoi(witness != NULL ? witness + 1 : argv[1]));
    if (open_session(&session, argv[1], &err) != 0)
        die("hf_open: %s", err.text);
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF)
        die("nobody said go");
    while ((all < target || own < least) && now_ns() < end) {
        all = run_section(session, fd, argv[2], log);
        own++;
        pause_us(rand_r(&seed) % 4000);
    }
    hf_close(session);
    close(fd);
    return fclose(log) == 0 ? 0 : 1;
}
