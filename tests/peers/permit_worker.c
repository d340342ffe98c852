/* permit_worker.c - holdfast's part in mixed runs with Curator's semaphore.
 *
 *     permit_worker run URL KEY PLACES TARGET LEAST FOLDER LOG
 *     permit_worker hold URL KEY PLACES
 *
 * `run` takes a permit again and again and writes down when it asked, had it
 * and gave it.  Inside it makes one of PLACES folders, none of which two may
 * have at a time: the witness that no clock is needed for.  It says `ready`,
 * waits for a line, and goes on until all workers together have TARGET sections
 * and it has LEAST of its own.  `hold` is told what to do, line by line: `take`
 * is answered `held`, anything else gives back and is answered `given`.
 * CuratorSemaphore.java is alike. */
#include <errno.h>
#include <fcntl.h>
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_SECONDS 200

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

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

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

/* One byte for every section of all workers; how many there are. */
static long long count_section(const char *folder, bool add)
{
    char path[500];
    struct stat is;
    int fd;

    snprintf(path, sizeof path, "%s/sections", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || (add && write(fd, "x", 1) != 1) || fstat(fd, &is) != 0)
        die(path, strerror(errno));
    close(fd);
    return is.st_size;
}

/* What is done while a permit is ours. */
static void do_section(const char *folder, unsigned places, FILE *log,
                       long long asked)
{
    long long got = now_ns(), gave;
    bool found = false;
    char path[500];

    for (unsigned i = 0; i < places && !found; i++) {
        snprintf(path, sizeof path, "%s/inside-%u", folder, i);
        found = mkdir(path, 0700) == 0;
    }
    count_section(folder, true);
    pause_us(500);
    if (found)
        rmdir(path);
    gave = now_ns();
    if (fprintf(log, "%lld %lld %lld %d\n", asked, got, gave, found ? 1 : 2) <
        0)
        die("log", strerror(errno));
}

static hf_session *open_store(const char *url)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 5000};
    hf_session *s = NULL;
    hf_error err;

    if (hf_open(&s, url, &opt, &err) != 0)
        die("hf_open", err.text);
    return s;
}

static hf_hold *take(hf_session *s, const char *key, unsigned places)
{
    hf_hold *hold = NULL;
    hf_error err;

    if (hf_lock_permit(s, key, places, NULL, &hold, &err) != 0)
        die("hf_lock_permit", err.text);
    return hold;
}

static void give(hf_hold *hold)
{
    hf_error err;

    if (hf_release(hold, &err) != 0)
        die("hf_release", err.text);
}

static int run_sections(char **argv, unsigned places)
{
    long target = strtol(argv[5], NULL, 10), least = strtol(argv[6], NULL, 10);
    long long end = now_ns() + MAX_SECONDS * 1000000000LL;
    hf_session *s = open_store(argv[2]);
    unsigned seed = (unsigned)getpid();
    FILE *log = fopen(argv[8], "we");

    if (!log)
        die(argv[8], strerror(errno));
    say("ready");
    if (getchar() == EOF)
        die("start", "nobody said go");
    for (long own = 0;
         (count_section(argv[7], false) < target || own < least) &&
         now_ns() < end;
         own++) {
        long long asked = now_ns();
        hf_hold *hold = take(s, argv[3], places);

        do_section(argv[7], places, log, asked);
        give(hold);
        pause_us(rand_r(&seed) % 2000);
    }
    if (fclose(log) != 0)
        die(argv[8], strerror(errno));
    hf_close(s);
    return 0;
}

static int hold_on_command(char **argv, unsigned places)
{
    hf_session *s = open_store(argv[2]);
    hf_hold *hold = NULL;
    char line[64];

    say("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "take\n") == 0) {
            hold = take(s, argv[3], places);
            say("held");
        } else {
            give(hold);
            say("given");
        }
    }
    hf_close(s);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned places = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;

    if (argc == 9 && strcmp(argv[1], "run") == 0)
        return run_sections(argv, places);
    if (argc == 5 && strcmp(argv[1], "hold") == 0)
        return hold_on_command(argv, places);
    die("usage", "permit_worker run|hold URL KEY PLACES ...");
}
