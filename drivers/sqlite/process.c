/* process.c - who a process is, and whether it still exists.
 *
 * A pid is used again, so a process is its pid and the time it began, seen from
 * one pid namespace.  The answer "gone" must be right, since locks are passed
 * on by it; "not gone" may be late, since the lease ends it anyway. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* A small file of the kernel, as a string.  Its length, or -1 and errno. */
static ssize_t read_small(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -1;
    while (len + 1 < cap) {
        ssize_t got = read(fd, buf + len, cap - 1 - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    buf[len] = '\0';
    return (ssize_t)len;
}

/* State, thread count and start time of a process; false: unreadable. */
static bool read_stat(int64_t pid, char *ret_state, long *ret_threads,
                      int64_t *ret_start)
{
    char path[64], buf[1024], *at;

    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_small(path, buf, sizeof buf) <= 0)
        return false;
    /* The name in brackets may contain anything, brackets too. */
    at = strrchr(buf, ')');
    if (!at || at[1] != ' ' || !at[2])
        return false;
    at += 2;
    *ret_state = *at;
    for (int field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
        if (field + 1 == 20)
            *ret_threads = strtol(at, NULL, 10);
    }
    *ret_start = strtoll(at, NULL, 10);
    return true;
}

bool hf__sq_gone(int64_t pid, int64_t start)
{
    char state;
    long threads = 0;
    int64_t began;

    if (pid <= 0 || start <= 0)
        return false;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return true;
    /* With hidepid other users' processes cannot be read: they exist. */
    if (!read_stat(pid, &state, &threads, &began))
        return false;
    if (began != start)
        return true;
    /* A zombie that nobody has waited for; one with threads left is only a
     * process whose first thread has ended. */
    return (state == 'Z' || state == 'X') && threads <= 1;
}

static int64_t namespace_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_ino : 0;
}

int hf__sq_self(sq_self *ret, hf_error *err)
{
    struct utsname name;
    char self[32], state;
    long threads;
    ssize_t len;

    memset(ret, 0, sizeof *ret);
    ret->pid = getpid();
    len = read_small("/proc/sys/kernel/random/boot_id", ret->boot,
                     sizeof ret->boot);
    if (len <= 0)
        return hfd_error(err, HF_ENOTSUP, "sqlite", errno,
                         "/proc cannot be read: mount it, or use another "
                         "store");
    ret->boot[strcspn(ret->boot, "\n")] = '\0';
    /* A /proc of another pid namespace shows strangers under our numbers:
     * then nothing can be proved by it, and leases decide. */
    len = readlink("/proc/self", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    if (strtoll(self, NULL, 10) == ret->pid &&
        read_stat(ret->pid, &state, &threads, &ret->start))
        ret->pidns = namespace_of("/proc/self/ns/pid");
    ret->timens = namespace_of("/proc/self/ns/time");
    if (uname(&name) == 0)
        snprintf(ret->host, sizeof ret->host, "%s", name.nodename);
    return 0;
}
