/* peer.c - Holdfast as one of the peers that `interop` drives.
 *
 * Every peer, in whatever language, speaks the same lines.  A *lane* is a
 * thread with a client of its own, so that one process is as many owners as
 * are needed; lanes work side by side, each in the order of its lines:
 *
 *     LANE open KIND AT LEASE_MS       opened
 *     LANE lock KEY                    held (with its token)
 *     LANE try KEY                     held, busy
 *     LANE renew KEY                   renewed, refused, none
 *     LANE unlock KEY                  given, refused
 *     LANE storm KEY TARGET LEAST FOLDER LOG PLACES   done
 *     LANE join OTHER                  joined: a thread on OTHER's client
 *     LANE bench KEY KEYS MS TURNS HOLD_US LOG   done (with the turns made)
 *     LANE close                       closed
 *     LANE crash                       the process ends, and says nothing
 *
 * Each is answered by `LANE WORD ASKED DONE [TEXT]`, the two instants in
 * nanoseconds of the monotonic clock; `failed` is what nobody expected.  The
 * process says `ready` first and ends with its input.  In a storm the key is
 * taken until all lanes of all peers have TARGET sections and this one LEAST;
 * inside, a folder is made that nobody else may have made, one of as many as
 * there are PLACES: the witness that no clock is needed for.  `bench` is for
 * `./bench --peers`: as fast as it can for so long or so many times (0: no
 * end), on KEY or on KEY-N in turn; LOG has the four instants of each turn, `-`
 * is no log.  Here KIND is `lock`, `shared`, or `permit:N`, one of the N of its
 * key, and AT is the URL. */
#include <errno.h>
#include <fcntl.h>
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE 2000
#define MAX_LANES 256
#define MAX_HOLDS 16
#define MAX_WORDS 8
#define STORM_SECONDS 300

typedef struct lane {
    char name[32];
    int lines; /* what it reads its lines from */
    int feed;  /* the other end, for main */
    pthread_t thread;
    hf_session *session;
    bool joined;      /* the session is another lane's to close */
    unsigned permits; /* 0: a lock */
    hf_mode mode;
    struct {
        char key[200];
        hf_hold *hold;
    } holds[MAX_HOLDS];
    int held;
} lane;

static pthread_mutex_t saying = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* of lanes */
static lane lanes[MAX_LANES];
static int lane_count; /* main's alone */

static void die(const char *why)
{
    fprintf(stderr, "peer: %s: %s\n", why, strerror(errno));
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

static void answer(const lane *l, const char *word, long long asked,
                   const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void answer(const lane *l, const char *word, long long asked,
                   const char *format, ...)
{
    long long done = now_ns();
    va_list args;

    pthread_mutex_lock(&saying);
    printf("%s %s %lld %lld ", l->name, word, asked, done);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&saying);
}

static void do_open(lane *l, char **w, long long asked)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = atoll(w[4])};
    hf_error err;

    if (strncmp(w[2], "permit:", 7) == 0)
        l->permits = (unsigned)strtoul(w[2] + 7, NULL, 10);
    l->mode = strcmp(w[2], "shared") == 0 ? HF_SHARED : HF_EXCLUSIVE;
    if (hf_open(&l->session, w[3], &opt, &err) != 0)
        answer(l, "failed", asked, "%s", err.text);
    else
        answer(l, "opened", asked, "holdfast");
}

static int take(lane *l, const char *key, bool wait, hf_hold **ret,
                hf_error *err)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = l->mode,
                           .wait_ms = wait ? HF_FOREVER : 0};

    return l->permits > 0
               ? hf_lock_permit(l->session, key, l->permits, &opt, ret, err)
               : hf_lock(l->session, key, &opt, ret, err);
}

static void do_lock(lane *l, const char *key, bool wait, long long asked)
{
    hf_hold *hold;
    hf_error err;

    if (l->held == MAX_HOLDS) {
        answer(l, "failed", asked, "too many holds");
        return;
    }
    if (take(l, key, wait, &hold, &err) != 0) {
        answer(l, err.code == HF_EBUSY ? "busy" : "failed", asked, "%s",
               err.text);
        return;
    }
    snprintf(l->holds[l->held].key, sizeof l->holds[0].key, "%s", key);
    l->holds[l->held++].hold = hold;
    answer(l, "held", asked, "%llu", (unsigned long long)hf_hold_token(hold));
}

static int find_hold(const lane *l, const char *key)
{
    for (int i = l->held - 1; i >= 0; i--)
        if (strcmp(l->holds[i].key, key) == 0)
            return i;
    return -1;
}

static void do_renew(lane *l, const char *key, long long asked)
{
    int i = find_hold(l, key);
    hf_error err;

    if (i < 0)
        answer(l, "refused", asked, "not held here");
    else if (hf_renew(l->holds[i].hold, &err) == 0)
        answer(l, "renewed", asked, "%lld",
               (long long)hf_hold_remaining_ms(l->holds[i].hold));
    else
        answer(l,
               hf_error_class(err.code) == HF_CLASS_LOST ? "refused" : "failed",
               asked, "%s", err.text);
}

static void do_unlock(lane *l, const char *key, long long asked)
{
    int i = find_hold(l, key);
    hf_error err;

    if (i < 0) {
        answer(l, "refused", asked, "not held here");
        return;
    }
    if (hf_release(l->holds[i].hold, &err) == 0)
        answer(l, "given", asked, "released");
    else
        answer(l,
               hf_error_class(err.code) == HF_CLASS_LOST ? "refused" : "failed",
               asked, "%s", err.text);
    l->holds[i] = l->holds[--l->held];
}

/* One byte for every section of all lanes; how many there are. */
static long long count_section(const char *folder, bool add)
{
    char path[500];
    struct stat is;
    int fd;

    snprintf(path, sizeof path, "%s/sections", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || (add && write(fd, "x", 1) != 1) || fstat(fd, &is) != 0)
        die(path);
    close(fd);
    return is.st_size;
}

static void do_section(const char *folder, int places, FILE *log,
                       long long asked)
{
    long long got = now_ns();
    char path[500];
    bool alone = false;

    for (int i = 0; i < places && !alone; i++) {
        snprintf(path, sizeof path, "%s/inside%d", folder, i);
        alone = mkdir(path, 0700) == 0;
    }
    count_section(folder, true);
    pause_us(200);
    if (alone)
        rmdir(path);
    fprintf(log, "%lld %lld %lld %d\n", asked, got, now_ns(), alone ? 1 : 2);
}

static void do_storm(lane *l, char **w, long long begun)
{
    long target = strtol(w[3], NULL, 10), least = strtol(w[4], NULL, 10);
    long long end = begun + STORM_SECONDS * 1000000000LL;
    unsigned seed = (unsigned)(getpid() ^ (long)begun);
    FILE *log = fopen(w[6], "we");
    hf_error err = {0};
    hf_hold *hold;
    long own = 0;

    if (!log)
        die(w[6]);
    while ((count_section(w[5], false) < target || own < least) &&
           now_ns() < end) {
        long long asked = now_ns();

        if (take(l, w[2], true, &hold, &err) != 0)
            break;
        do_section(w[5], atoi(w[7]), log, asked);
        /* A server that dies may take the answer with it. */
        if (hf_release(hold, &err) != 0 && err.code != HF_EUNKNOWN)
            break;
        err.code = 0;
        own++;
        pause_us(rand_r(&seed) % 4000);
    }
    if (fclose(log) != 0)
        die(w[6]);
    if (err.code != 0)
        answer(l, "failed", begun, "%s", err.text);
    else
        answer(l, "done", begun, "%ld", own);
}

static void do_join(lane *l, const char *other, long long asked)
{
    pthread_mutex_lock(&naming);
    for (int i = 0; i < MAX_LANES && !l->joined; i++)
        if (strcmp(lanes[i].name, other) == 0 && lanes[i].session) {
            l->session = lanes[i].session;
            l->permits = lanes[i].permits;
            l->mode = lanes[i].mode;
            l->joined = true;
        }
    pthread_mutex_unlock(&naming);
    answer(l, l->joined ? "joined" : "failed", asked, "%s", other);
}

typedef struct turn {
    long long asked, got, gave, done;
} turn;

static void write_turns(const char *path, const turn *turns, long count)
{
    FILE *log = fopen(path, "we");

    if (!log)
        die(path);
    for (long i = 0; i < count; i++)
        fprintf(log, "%lld %lld %lld %lld\n", turns[i].asked, turns[i].got,
                turns[i].gave, turns[i].done);
    if (fclose(log) != 0)
        die(path);
}

/* One turn on KEY, or on one of several; 0, or what went wrong. */
static int make_turn(lane *l, char **w, long number, turn *ret, hf_error *err)
{
    long keys = strtol(w[3], NULL, 10), hold_us = strtol(w[6], NULL, 10);
    char key[200];
    hf_hold *hold;

    if (keys > 1)
        snprintf(key, sizeof key, "%s-%ld", w[2], number % keys);
    else
        snprintf(key, sizeof key, "%s", w[2]);
    ret->asked = now_ns();
    if (take(l, key, true, &hold, err) != 0)
        return err->code;
    ret->got = now_ns();
    if (hold_us > 0)
        pause_us(hold_us);
    ret->gave = now_ns();
    if (hf_release(hold, err) != 0)
        return err->code;
    ret->done = now_ns();
    return 0;
}

static void do_bench(lane *l, char **w, long long begun)
{
    long ms = strtol(w[4], NULL, 10), most = strtol(w[5], NULL, 10);
    long long end = begun + ms * 1000000LL;
    long count = 0, room = 0;
    hf_error err = {0};
    turn *turns = NULL;

    while ((ms == 0 || now_ns() < end) && (most == 0 || count < most)) {
        if (count == room) {
            room = room ? 2 * room : 1024;
            turns = realloc(turns, (size_t)room * sizeof *turns);
            if (!turns)
                die("realloc");
        }
        if (make_turn(l, w, count, &turns[count], &err) != 0)
            break;
        count++;
    }
    if (strcmp(w[7], "-") != 0)
        write_turns(w[7], turns, count);
    free(turns);
    if (err.code != 0)
        answer(l, "failed", begun, "%s", err.text);
    else
        answer(l, "done", begun, "%ld", count);
}

static void close_lane(lane *l)
{
    if (!l->joined)
        hf_close(l->session);
    l->session = NULL;
    l->held = 0;
}

static void obey(lane *l, char **w, int words)
{
    long long asked = now_ns();
    const char *verb = w[1];

    if (strcmp(verb, "open") == 0 && words == 5) {
        do_open(l, w, asked);
    } else if (strcmp(verb, "lock") == 0 && words == 3) {
        do_lock(l, w[2], true, asked);
    } else if (strcmp(verb, "try") == 0 && words == 3) {
        do_lock(l, w[2], false, asked);
    } else if (strcmp(verb, "renew") == 0 && words == 3) {
        do_renew(l, w[2], asked);
    } else if (strcmp(verb, "unlock") == 0 && words == 3) {
        do_unlock(l, w[2], asked);
    } else if (strcmp(verb, "storm") == 0 && words == 8) {
        do_storm(l, w, asked);
    } else if (strcmp(verb, "join") == 0 && words == 3) {
        do_join(l, w[2], asked);
    } else if (strcmp(verb, "bench") == 0 && words == 8) {
        do_bench(l, w, asked);
    } else if (strcmp(verb, "close") == 0) {
        close_lane(l);
        answer(l, "closed", asked, "holdfast");
    } else {
        answer(l, "failed", asked, "no such verb: %s", verb);
    }
}

static void *run_lane(void *arg)
{
    lane *l = arg;
    FILE *in = fdopen(l->lines, "re");
    char line[LINE], *words[MAX_WORDS], *rest;

    if (!in)
        die("fdopen");
    while (fgets(line, sizeof line, in)) {
        int n = 0;

        for (char *w = strtok_r(line, " \n", &rest); w && n < MAX_WORDS;
             w = strtok_r(NULL, " \n", &rest))
            words[n++] = w;
        obey(l, words, n);
    }
    close_lane(l);
    fclose(in);
    return NULL;
}

static lane *find_lane(const char *name)
{
    lane *l;
    int ends[2];

    for (int i = 0; i < lane_count; i++)
        if (strcmp(lanes[i].name, name) == 0)
            return &lanes[i];
    if (lane_count == MAX_LANES || pipe(ends) != 0)
        die("no more lanes");
    l = &lanes[lane_count++];
    pthread_mutex_lock(&naming);
    snprintf(l->name, sizeof l->name, "%s", name);
    pthread_mutex_unlock(&naming);
    l->lines = ends[0];
    l->feed = ends[1];
    if (pthread_create(&l->thread, NULL, run_lane, l) != 0)
        die("pthread_create");
    return l;
}

int main(void)
{
    char line[LINE], name[32], verb[32];

    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%31s %31s", name, verb) != 2)
            continue;
        if (strcmp(verb, "crash") == 0)
            raise(SIGKILL);
        if (write(find_lane(name)->feed, line, strlen(line)) < 0)
            die("write");
    }
    for (int i = 0; i < lane_count; i++) {
        close(lanes[i].feed);
        pthread_join(lanes[i].thread, NULL);
    }
    return 0;
}
