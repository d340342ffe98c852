/* replay.c - run a fuzz target without a fuzzer.
 *
 *     replay FOLDER [ROUNDS]
 *
 * Each file of FOLDER is a seed: it is given as it is, then ROUNDS times with
 * small random changes (bytes flipped, cut, doubled, moved), always the same
 * ones.  Each seed runs in a process of its own, so that a broken promise
 * names its seed and the rest still run; the input at fault is kept in the
 * build folder and named. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT_MAX = 8192, SEEDS_MAX = 1000, LIMIT_S = 250 };

static uint64_t chance_state;

static uint64_t chance(uint64_t below)
{
    chance_state ^= chance_state << 13;
    chance_state ^= chance_state >> 7;
    chance_state ^= chance_state << 17;
    return chance_state % below;
}

static size_t read_seed(const char *path, uint8_t *data)
{
    FILE *f = fopen(path, "rb");
    size_t size;

    if (!f) {
        perror(path);
        _exit(1);
    }
    size = fread(data, 1, INPUT_MAX, f);
    fclose(f);
    return size;
}

/* One small change; returns the new size. */
static size_t change_input(uint8_t *data, size_t size)
{
    size_t at = chance(size + 1), len = 1 + chance(8);

    switch (chance(5)) {
    case 0: /* another byte */
        if (at < size)
            data[at] = (uint8_t)chance(256);
        return size;
    case 1: /* one bit */
        if (at < size)
            data[at] ^= (uint8_t)(1U << chance(8));
        return size;
    case 2: /* cut out */
        if (at + len > size)
            len = size - at;
        memmove(data + at, data + at + len, size - at - len);
        return size - len;
    case 3: /* put in */
        if (size + len > INPUT_MAX)
            return size;
        memmove(data + at + len, data + at, size - at);
        for (size_t i = 0; i < len; i++)
            data[at + i] = (uint8_t)chance(256);
        return size + len;
    default: /* twice */
        if (at + len > size || size + len > INPUT_MAX)
            return size;
        memmove(data + at + len, data + at, size - at);
        return size + len;
    }
}

static const uint8_t *current;
static size_t current_size;
static char kept[4096]; /* where the input at fault goes */

/* The promise has been named already; keep the input that broke it. */
static void keep_input(int sig)
{
    int fd = open(kept, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0 && write(fd, current, current_size) == (ssize_t)current_size &&
        write(2, kept, strlen(kept)) > 0)
        (void)!write(2, ": the input\n", 12);
    _exit(sig);
}

static void run_seed(const char *path, const char *name, long rounds)
{
    const char *folder = getenv("HF_BUILD_DIR");
    static uint8_t seed[INPUT_MAX], data[INPUT_MAX];
    size_t seed_size = read_seed(path, seed), size = seed_size;

    snprintf(kept, sizeof kept, "%s/fuzz-%s.bin", folder ? folder : ".", name);
    signal(SIGABRT, keep_input);
    alarm(LIMIT_S);
    chance_state = UINT64_C(0x9e3779b97f4a7c15) ^ seed_size;
    memcpy(data, seed, seed_size);
    for (long round = 0; round <= rounds; round++) {
        uint8_t *copy = malloc(size ? size : 1);

        if (!copy)
            _exit(1);
        /* A block of its own, so that reading past the end is seen. */
        memcpy(copy, data, size);
        current = copy;
        current_size = size;
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        if (round % 8 == 7) {
            memcpy(data, seed, seed_size);
            size = seed_size;
        }
        size = change_input(data, size);
    }
    exit(0); /* with the leak checker's word */
}

static int try_seed(const char *path, const char *name, long rounds)
{
    int status = -1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0)
        run_seed(path, name, rounds);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("FAIL %s: status 0x%x\n", name, (unsigned)status);
        return 1;
    }
    printf("ok %s\n", name);
    return 0;
}

static int is_seed(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    int count, failed = 0;

    if (argc < 2) {
        fprintf(stderr, "replay FOLDER [ROUNDS]: which folder of seeds?\n");
        return 2;
    }
    count = scandir(argv[1], &entries, is_seed, alphasort);
    if (count < 0 || count > SEEDS_MAX) {
        perror(argv[1]);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        failed += try_seed(path, entries[i]->d_name, rounds);
        free(entries[i]);
    }
    free(entries);
    printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed ? 1 : 0;
}
