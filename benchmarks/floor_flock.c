/* floor_flock.c - flock(2): what the kernel gives for nothing.
 *
 * One open file a key and thread, kept open, as flock(2) is used when it is
 * used well.  No token, no lease, no list of who waits. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

/* The scenarios that use this floor know one key. */
struct flock_thread {
    const char *dir;
    char key[64];
    int fd;
};

static void *flock_open_process(const char *dir)
{
    char *copy = strdup(dir);

    if (copy == NULL)
        bench_die("out of memory");
    return copy;
}

static void *flock_open_thread(void *process, int worker)
{
    struct flock_thread *t = calloc(1, sizeof *t);

    (void)worker;
    if (t == NULL)
        bench_die("out of memory");
    t->dir = process;
    t->fd = -1;
    return t;
}

static int key_file(struct flock_thread *t, const char *key)
{
    char path[512];

    if (t->fd >= 0 && strcmp(t->key, key) == 0)
        return t->fd;
    if (t->fd >= 0 || strlen(key) >= sizeof t->key)
        bench_die("floor: flock(2) is measured with one short key only");
    memcpy(t->key, key, strlen(key) + 1);
    path_in(path, sizeof path, t->dir, key);
    t->fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (t->fd < 0)
        bench_die("floor: cannot open '%s': %s", path, strerror(errno));
    return t->fd;
}

static void flock_lock(void *thread, const char *key)
{
    if (flock(key_file(thread, key), LOCK_EX) != 0)
        bench_die("floor: flock: %s", strerror(errno));
}

static void flock_unlock(void *thread, const char *key)
{
    if (flock(key_file(thread, key), LOCK_UN) != 0)
        bench_die("floor: flock: %s", strerror(errno));
}

const struct side floor_flock = {
    .name = "flock(2)",
    .open_process = flock_open_process,
    .open_thread = flock_open_thread,
    .lock = flock_lock,
    .unlock = flock_unlock,
};
