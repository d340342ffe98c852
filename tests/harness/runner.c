/* runner.c - one process per test, with a time limit.
 *
 * The parent forks a child per case, which leads a process group of its own,
 * so that whatever the test started is killed with it.  The child's output is
 * kept in a file and shown only when the test fails. */
#include "harness/runner.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static char folder[128];
static const char *running = "";

long long test_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void test_sleep_ms(int ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

    while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
        ;
}

void skip_test(const char *why)
{
    fflush(NULL);
    fprintf(stderr, "%s", why);
    fflush(NULL);
    _Exit(SKIPPED);
}

const char *test_folder(void)
{
    return folder;
}

const char *test_name(void)
{
    return running;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/hf-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(2);
    }
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void show_descriptors(void)
{
    char path[64], link[256];

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, link, sizeof link - 1);
        if (len > 0)
            fprintf(stderr, "  %d: %.*s\n", fd, (int)len, link);
    }
}

/* The child's part: run the case, then look for what it left behind. */
static void run_case(const test_case *test, int output)
{
    int before;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not left behind when all is ended */
    dup2(output, 1);
    dup2(output, 2);
    close(output);
    before = count_descriptors();
    test->run();
    fflush(NULL);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
        fprintf(stderr, "the test left a child process behind\n");
        _Exit(1);
    }
    if (count_descriptors() > before) {
        fprintf(stderr, "the test left %d descriptors open\n",
                count_descriptors() - before);
        show_descriptors();
        _Exit(1);
    }
    exit(0); /* not _Exit: the leak checker runs at exit */
}

static void show_output(FILE *output, const char *indent)
{
    char line[1024];

    rewind(output);
    while (fgets(line, sizeof line, output))
        printf("%s%s", indent, line);
}

/* Waits for the child; false: the limit passed. */
static bool wait_child(pid_t pid, unsigned limit_s, int *status)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    long long end = test_now_ms() + (long long)limit_s * 1000;
    int ready = 0;

    while (ready <= 0) {
        long long left = end - test_now_ms();

        if (left <= 0)
            break;
        ready = poll(&poll_fd, 1, (int)left);
    }
    close(fd);
    if (ready > 0) {
        waitpid(pid, status, 0);
        kill(-pid, SIGKILL); /* whatever it started and left */
        return true;
    }
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return false;
}

static int run_one(const char *suite, const test_case *test)
{
    FILE *output = tmpfile();
    unsigned limit_s = test->limit_s ? test->limit_s : 180;
    const char *scale = getenv("HOLDFAST_TEST_SLOW");
    int status = 0;
    pid_t pid;

    if (scale)
        limit_s *= (unsigned)atoi(scale);
    running = test->name;
    make_folder();
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        run_case(test, fileno(output));
    setpgid(pid, pid);
    bool in_time = wait_child(pid, limit_s, &status);

    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    int result = 1;

    if (!in_time) {
        show_output(output, "    ");
        printf("FAIL %s.%s: took longer than %u s\n", suite, test->name,
               limit_s);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        printf("ok %s.%s\n", suite, test->name);
        result = 0;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        printf("skip %s.%s: ", suite, test->name);
        show_output(output, "");
        putchar('\n');
        result = 2;
    } else {
        show_output(output, "    ");
        printf("FAIL %s.%s: %s %d\n", suite, test->name,
               WIFSIGNALED(status) ? "killed by signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    fclose(output);
    fflush(stdout);
    return result;
}

int run_tests(int argc, char **argv, const char *suite, const test_case *cases,
              size_t count)
{
    int sums[3] = {0};

    for (size_t i = 0; i < count; i++) {
        bool wanted = argc < 2;

        for (int k = 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], cases[i].name) == 0;
        if (wanted)
            sums[run_one(suite, &cases[i])]++;
    }
    printf("%d passed, %d failed, %d skipped\n", sums[0], sums[1], sums[2]);
    return sums[1] || (sums[0] == 0 && sums[2] == 0);
}
