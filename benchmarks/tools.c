/* tools.c - clock, cores, ports, processes and files for the scenarios.
 *
 * Knows nothing of locks.  Every child started here dies with its parent
 * (PR_SET_PDEATHSIG), so a benchmark that is interrupted leaves no process
 * behind. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How many fork_bound() stand between this process and the first one; a
 * scenario is 1, its workers are more. */
static int depth;

void bench_die(const char *format, ...)
{
    va_list args;

    fputs("bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    /* The scenario may be waiting at a barrier that this worker will never
     * reach; it goes down too, and takes the other workers with it. */
    if (depth > 1)
        kill(getppid(), SIGTERM);
    _exit(2);
}

void bench_skip(const char *format, ...)
{
    va_list args;

    fputs("skipped: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(SKIPPED);
}

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void sleep_us(int64_t us)
{
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double quantile(double *v, size_t n, double q)
{
    size_t i = (size_t)(q * (double)n);

    if (n == 0)
        bench_die("nothing was measured; run it again on a quieter machine");
    qsort(v, n, sizeof *v, compare_doubles);
    return v[i < n ? i : n - 1];
}

/* The cores of the process as it was started, before any pinning. */
static const cpu_set_t *first_cores(void)
{
    static cpu_set_t cores;
    static bool known;

    if (!known && sched_getaffinity(0, sizeof cores, &cores) != 0)
        bench_die("cannot read the set of cores: %s", strerror(errno));
    known = true;
    return &cores;
}

int core_count(void)
{
    return CPU_COUNT(first_cores());
}

void pin_to(int i)
{
    const cpu_set_t *all = first_cores();
    int left = i == ALL_CORES ? 0 : i % core_count();
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all) && (i == ALL_CORES || left-- == 0))
            CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        bench_die("cannot pin to core %d: %s", i, strerror(errno));
}

int placements(struct placement ret[PLACEMENTS])
{
    const int last = core_count() - 1;

    ret[0] = (struct placement){"one core", last, last};
    ret[1] = (struct placement){"split", 0, last};
    return last > 0 ? 2 : 1;
}

int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        bench_die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(at.sin_port);
}

bool is_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[1024];

    while (path != NULL && *path != '\0') {
        int len = (int)strcspn(path, ":");

        snprintf(file, sizeof file, "%.*s/%s", len, path, program);
        if (access(file, X_OK) == 0)
            return true;
        path += path[len] == ':' ? len + 1 : len;
    }
    return false;
}

pid_t fork_bound(void)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (pid == 0) {
        depth++;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The parent may have died before the line above. */
        if (getppid() != parent)
            _exit(2);
    }
    return pid;
}

void wait_done(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("cannot wait for a child: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die("a child of the benchmark failed (status %#x)", status);
}

void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        bench_die("cannot map %zu bytes: %s", size, strerror(errno));
    return p;
}

void unshare_memory(void *p, size_t size)
{
    munmap(p, size);
}

long self_status(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long value = -1;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    if (f != NULL)
        fclose(f);
    if (value < 0)
        bench_die("cannot read '%s' in /proc/self/status", field);
    return value;
}

void path_in(char *ret, size_t cap, const char *dir, const char *name)
{
    int n = snprintf(ret, cap, "%s/%s", dir, name);

    if (n < 0 || (size_t)n >= cap)
        bench_die("the path '%s/%s' is too long; set TMPDIR shorter", dir,
                  name);
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void remove_folder(const char *dir)
{
    if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "bench: cannot remove '%s': %s\n", dir,
                strerror(errno));
}
