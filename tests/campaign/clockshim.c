/* clockshim.c - a wall clock that can be set, for one process and its children.
 *
 * Preloaded into a client, it adds to CLOCK_REALTIME, gettimeofday and time
 * what the file HF_CLOCK_SHIM holds: a number of nanoseconds, 8 bytes, that the
 * conductor may change at any moment.  All other clocks stay what they are, so
 * that this is what an operator does with `date`, and not a suspend. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHIM __attribute__((visibility("default")))

static const _Atomic int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("HF_CLOCK_SHIM");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at =
        fd >= 0 ? mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (at != MAP_FAILED)
        offset = at;
    if (fd >= 0)
        close(fd);
}

static int64_t shifted_ns(const struct timespec *t)
{
    return t->tv_sec * INT64_C(1000000000) + t->tv_nsec +
           (offset ? *offset : 0);
}

SHIM int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int status = (int)syscall(SYS_clock_gettime, clock, ret);

    if (status == 0 &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = shifted_ns(ret);

        ret->tv_sec = ns / 1000000000;
        ret->tv_nsec = ns % 1000000000;
    }
    return status;
}

SHIM int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &t) != 0)
        return -1;
    ret->tv_sec = t.tv_sec;
    ret->tv_usec = t.tv_nsec / 1000;
    return 0;
}

SHIM time_t time(time_t *ret)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_REALTIME, &t);
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}
