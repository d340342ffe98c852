/* child.c - programs that a test starts.
 *
 * Each asks the kernel to be killed with the thread that made it, so that no
 * test, however it ends, leaves one behind.  Between fork and exec only calls
 * are made that are safe in a program with threads. */
#include "harness/child.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"

int child_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    EXPECT(bind(fd, (struct sockaddr *)&address, len) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void become(char **words, const char *log, pid_t parent)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int none = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    dup2(none, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    close_range(3, ~0U, 0);
    execvp(words[0], words);
    _exit(127);
}

pid_t child_start(char **words, const char *log)
{
    pid_t parent = getpid(), pid = fork();

    EXPECT(pid >= 0);
    if (pid == 0)
        become(words, log, parent);
    return pid;
}

int child_ended(pid_t pid)
{
    int status = 0;

    return waitpid(pid, &status, WNOHANG) == pid ? status : -1;
}

void child_end(pid_t pid, int signal)
{
    long long end = test_now_ms() + 5000;

    kill(pid, SIGCONT);
    kill(pid, signal);
    while (child_ended(pid) < 0) {
        if (test_now_ms() >= end)
            kill(pid, SIGKILL);
        test_sleep_ms(1);
    }
}

int child_run(char **words, const char *log, int ms)
{
    long long end = test_now_ms() + ms;
    pid_t pid = child_start(words, log);
    int status;

    while ((status = child_ended(pid)) < 0) {
        if (test_now_ms() >= end) {
            child_end(pid, SIGKILL);
            return -1;
        }
        test_sleep_ms(1);
    }
    return status;
}

void child_show(const char *path)
{
    char line[512];
    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f))
        fputs(line, stderr);
    if (f)
        fclose(f);
}
