/* side.c - the side file PATH-hold: slots, proofs of life, futex words.
 *
 * A mapped file beside the database.  A session owns one slot: an open file
 * description lock on the slot's byte, which the kernel drops when the last
 * copy of the descriptor is closed, and sixteen futex words to be woken by.
 * The header also remembers the largest reserve of numbers that the database
 * ever had, so that an older copy put in its place is noticed.
 *
 * The file decides nothing about locks: without it the tables are still right,
 * only slow.  Its blocks are allocated before they are written through the map,
 * since a full disk would otherwise end the process by a signal.  No other
 * descriptor lock of the process can drop ours: it belongs to the description,
 * not to the process. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOCK_SLOTS (INT64_C(1) << 40) /* the byte of slot 0 */
#define LOCK_OPEN (LOCK_SLOTS - 1)    /* held while a store is opened */

static const char side_magic[8] = "hfhold1";

_Static_assert(sizeof(sq_slot) == 1024, "a slot is 1024 bytes");
_Static_assert(offsetof(sq_map, slot) == 4096, "the header is 4096 bytes");

static int lock_bytes(int fd, short type, int64_t at, int64_t len)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = len};

    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* Would a write lock by somebody else be in the way of ours? */
static bool is_locked(int fd, int64_t at, int64_t len)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = len};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool hf__sq_slot_locked(const hf_store *s, int64_t slot)
{
    if (s->side_fd < 0 || slot < 0 || slot >= SQ_SLOTS)
        return true; /* no proof of the contrary */
    return is_locked(s->side_fd, LOCK_SLOTS + slot, 1);
}

bool hf__sq_side_idle(const hf_store *s)
{
    return s->side_fd < 0 || !is_locked(s->side_fd, LOCK_SLOTS, SQ_SLOTS);
}

static int fail_side(const hf_store *s, const char *what, hf_error *err)
{
    int os = errno;
    bool full = os == ENOSPC || os == EDQUOT;
    bool limit = os == EMFILE || os == ENFILE || os == ENOMEM;

    if (os == ELOOP)
        return hfd_error(err, HF_EPROTO, "sqlite", os,
                         "'%s-hold' is a symbolic link: remove it", s->path);
    if (full)
        return hfd_error(err, HF_EUNAVAIL, "sqlite", os,
                         "the disk is full, '%s-hold' cannot be made: make "
                         "room and try again",
                         s->path);
    return hfd_error(err, limit ? HF_EUNAVAIL : HF_EPERM, "sqlite", os,
                     "cannot %s '%s-hold': %s", what, s->path, strerror(os));
}

/* Check, size and map the open file. */
static int map_side(hf_store *s, hf_error *err)
{
    struct stat st;
    int os;

    if (fstat(s->side_fd, &st) != 0)
        return fail_side(s, "look at", err);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s-hold' is not a plain file with one name: remove "
                         "it",
                         s->path);
    s->side_dev = st.st_dev;
    s->side_ino = st.st_ino;
    s->map_len = sizeof(sq_map);
    if (st.st_size != 0 && (size_t)st.st_size != s->map_len)
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s-hold' is not ours or of another version: stop "
                         "the users of '%s' and remove it",
                         s->path, s->path);
    os = st.st_size == 0 ? posix_fallocate(s->side_fd, 0, 4096) : 0;
    if (os == 0 && st.st_size == 0 &&
        ftruncate(s->side_fd, (off_t)s->map_len) != 0)
        os = errno;
    if (os != 0) {
        errno = os;
        return fail_side(s, "write", err);
    }
    s->map = mmap(NULL, s->map_len, PROT_READ | PROT_WRITE, MAP_SHARED,
                  s->side_fd, 0);
    if (s->map == MAP_FAILED) {
        s->map = NULL;
        return fail_side(s, "map", err);
    }
    if (st.st_size != 0 && s->map->magic[0] != '\0' &&
        memcmp(s->map->magic, side_magic, sizeof side_magic) != 0)
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s-hold' is not ours: remove it, or name another "
                         "path",
                         s->path);
    return 0;
}

/* Without a side file: the same words, in memory of this process alone. */
static int map_private(hf_store *s, hf_error *err)
{
    s->map_len = sizeof(sq_map);
    s->map = mmap(NULL, s->map_len, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s->map != MAP_FAILED)
        return 0;
    s->map = NULL;
    return hfd_error(err, HF_ENOMEM, "sqlite", errno, "out of memory");
}

int hf__sq_side_open(hf_store *s, hf_error *err)
{
    char path[PATH_MAX + 8];
    hf_nsec deadline = hfd_now() + s->patience;

    if (s->network)
        return map_private(s, err);
    snprintf(path, sizeof path, "%s-hold", s->path);
    s->side_fd = open(
        path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        0600);
    if (s->side_fd < 0)
        return fail_side(s, "open", err);
    while (lock_bytes(s->side_fd, F_WRLCK, LOCK_OPEN, 1) != 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return fail_side(s, "lock", err);
        if (hfd_now() >= deadline)
            return hfd_error(err, HF_EUNAVAIL, "sqlite", 0,
                             "'%s' is being opened by another process that "
                             "does not finish; try again",
                             s->path);
        poll(NULL, 0, 1);
    }
    return map_side(s, err);
}

void hf__sq_side_opened(hf_store *s)
{
    if (s->side_fd >= 0)
        lock_bytes(s->side_fd, F_UNLCK, LOCK_OPEN, 1);
}

void hf__sq_side_floor(hf_store *s, uint64_t reserved)
{
    uint64_t had = atomic_load(&s->map->floor);

    while (had < reserved &&
           !atomic_compare_exchange_weak(&s->map->floor, &had, reserved))
        ;
}

bool hf__sq_side_fresh(const hf_store *s)
{
    return s->map->magic[0] == '\0';
}

int hf__sq_side_adopt(hf_store *s, const uint8_t *db_id, hf_error *err)
{
    (void)err;
    /* Writing what is there would make the page dirty for nothing. */
    if (!hf__sq_side_fresh(s) && s->map->db_ino == (uint64_t)s->ino &&
        memcmp(s->map->db_id, db_id, sizeof s->map->db_id) == 0)
        return 0;
    memcpy(s->map->db_id, db_id, sizeof s->map->db_id);
    s->map->db_ino = (uint64_t)s->ino;
    s->map->version = 1;
    s->map->slots = SQ_SLOTS;
    memcpy(s->map->magic, side_magic, sizeof side_magic);
    return 0;
}

/* Of the free slots, which one?  Those of the first page are tried before all
 * others: its block is allocated and its page is warm, which a command that
 * opens, locks and ends can feel.  But a slot whose last owner died in it is a
 * piece of evidence: as long as its byte is free, everybody can prove the
 * death.  So such a slot is left alone unless no session has a row at all, or
 * the search, which begins elsewhere for each process, comes upon it. */
static int take_slot(hf_store *s, uint32_t slot, hf_error *err)
{
    sq_slot *at = &s->map->slot[slot];
    off_t begin = (off_t)(offsetof(sq_map, slot) + slot * sizeof *at);
    uint64_t used = 0;
    int os = 0;

    /* Not through the map: on a full tmpfs a look at a page without a block is
     * a SIGBUS. */
    if (pread(s->side_fd, &used, sizeof used,
              begin + (off_t)offsetof(sq_slot, used)) < 0)
        return fail_side(s, "read", err);
    if (!used)
        os = posix_fallocate(s->side_fd, begin, sizeof *at);
    if (os != 0) {
        errno = os;
        return fail_side(s, "write", err);
    }
    at->used = SQ_SLOT_TAKEN;
    s->slot = slot;
    s->ring_tail = atomic_load(&at->head);
    return 0;
}

#define NEAR 4 /* slots of the first page */

int hf__sq_side_slot(hf_store *s, hf_error *err)
{
    uint32_t pid = (uint32_t)s->self.pid, from = pid * 2654435761u >> 8;

    if (s->side_fd < 0)
        return 0;
    /* Nobody else is here, so nobody stands at the gate: tickets of the dead
     * are not waited for. */
    if (atomic_load(&s->map->gate_serving) != atomic_load(&s->map->gate_next) &&
        hf__sq_side_idle(s))
        atomic_store(&s->map->gate_serving, atomic_load(&s->map->gate_next));
    for (uint32_t i = 0; i < NEAR + SQ_SLOTS; i++) {
        bool near = i < NEAR;
        uint32_t slot = near ? (pid + i) % NEAR : (from + i) % SQ_SLOTS;

        if (near && !s->vacant && s->map->slot[slot].used == SQ_SLOT_TAKEN)
            continue;
        if (lock_bytes(s->side_fd, F_WRLCK, LOCK_SLOTS + slot, 1) == 0)
            return take_slot(s, slot, err);
    }
    return hfd_error(err, HF_EUNAVAIL, "sqlite", 0,
                     "'%s' has %d sessions open already: close some, or use a "
                     "second file",
                     s->path, SQ_SLOTS);
}

bool hf__sq_side_mine(hf_store *s)
{
    struct stat st;

    if (s->side_fd < 0)
        return true;
    if (fstat(s->side_fd, &st) != 0 || st.st_dev != s->side_dev ||
        st.st_ino != s->side_ino)
        return false;
    /* Taking what we have is free; taking it again after all is a repair. */
    return lock_bytes(s->side_fd, F_WRLCK, LOCK_SLOTS + s->slot, 1) == 0;
}

void hf__sq_side_close(hf_store *s)
{
    if (s->map && s->side_fd >= 0 && s->detached &&
        s->map->slot[s->slot].used == SQ_SLOT_TAKEN)
        s->map->slot[s->slot].used = SQ_SLOT_CLEAN;
    if (s->map)
        munmap(s->map, s->map_len);
    s->map = NULL;
    if (s->side_fd >= 0)
        close(s->side_fd);
    s->side_fd = -1;
}

_Atomic uint32_t *hf__sq_word(hf_store *s, uint32_t index)
{
    return &s->map->slot[index / SQ_WORDS % SQ_SLOTS].word[index % SQ_WORDS];
}

bool hf__sq_futex_sleep(_Atomic uint32_t *word, uint32_t value, hf_nsec most)
{
    struct timespec ts = {(time_t)(most / 1000000000),
                          (long)(most % 1000000000)};

    return most > 0 &&
           syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0) == 0;
}

uint32_t hf__sq_futex_wait(_Atomic uint32_t *word, uint32_t value, hf_nsec most)
{
    hf__sq_futex_sleep(word, value, most);
    return atomic_load(word);
}

void hf__sq_futex_wake_one(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void hf__sq_futex_bump(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Write the rid into the slot's ring, if it is the bell that is rung. */
static void write_ring(sq_slot *slot, const sq_wake *wake)
{
    uint64_t at = atomic_fetch_add(&slot->head, 1), half[2];
    sq_ring_entry *entry = &slot->ring[at % SQ_RING];

    memcpy(half, wake->rid.bytes, sizeof half);
    atomic_store(&entry->seq, 0);
    atomic_store(&entry->rid[0], half[0]);
    atomic_store(&entry->rid[1], half[1]);
    atomic_store(&entry->seq, (at + 1) | (wake->news ? SQ_NEWS : 0));
}

void hf__sq_ring(hf_store *s, const sq_wake *wake)
{
    if (s->network)
        return;
    if (wake->token != 0)
        hf__sq_letter_write(s, wake);
    if (wake->word % SQ_WORDS == 0)
        write_ring(&s->map->slot[wake->word / SQ_WORDS % SQ_SLOTS], wake);
    hf__sq_futex_bump(hf__sq_word(s, wake->word));
}
