/* client.c - one process of a campaign: a session, a few threads that take
 * locks, and a diary of all that they were told.
 *
 *     campaign_client URL FOLDER LIFE LEASE_MS KEYS THREADS SEED
 *     campaign_client --residue URL
 *
 * TERM asks it to end: the threads finish their turns, the session is closed,
 * and the diary's last line says how many descriptors and threads are left.
 * USR1 makes it fork: the child asks what a child must be refused, and ends, or
 * becomes another program.
 * Beside the workers one thread lists the store's waiting entries (their
 * places prove the order) and one notices when this process stood still.
 *
 * Ends with 0 if it could do its work, whatever the store was like. */
#include "client.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 50, STALL_MS = 200, LOOK_MS = 200, OPEN_S = 90 };

int64_t camp_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void camp_write(camp_client *c, camp_record r)
{
    r.life = c->life;
    if (r.at == 0)
        r.at = camp_now();
    if (r.called == 0)
        r.called = r.at;
    r.sum = camp_sum(&r);
    if (write(c->diary, &r, sizeof r) != (ssize_t)sizeof r) {
        perror("the diary cannot be written");
        _exit(3);
    }
}

uint32_t camp_draw(camp_worker *w, uint32_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint32_t)((w->random >> 16) % below);
}

void camp_name_thread(void)
{
    char name[16];

    /* By its number: threads of the library inherit the name alone. */
    snprintf(name, sizeof name, "camp%d", (int)gettid());
    pthread_setname_np(pthread_self(), name);
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static int count_in(const char *folder)
{
    DIR *d = opendir(folder);
    int count = 0;

    while (d && readdir(d))
        count++;
    if (d)
        closedir(d);
    return count;
}

/* ---- Beside the workers ------------------------------------------------- */

typedef struct look {
    camp_client *c;
    int64_t called;
} look;

static int note_entry(const hf_entry_info *e, void *user)
{
    look *l = user;
    camp_record r = {.kind = CAMP_SEEN,
                     .called = l->called,
                     .number = e->number,
                     .token = e->token,
                     .mode = (uint8_t)e->mode};
    unsigned key = CAMP_KEYS;

    if (sscanf(e->key, "camp/%u", &key) != 1 || key >= CAMP_KEYS)
        return 0;
    r.key = (uint8_t)key;
    if (!e->granted && !e->closed)
        camp_write(l->c, r);
    return 0;
}

static void *list_entries(void *arg)
{
    camp_client *c = arg;

    camp_name_thread();
    while (!atomic_load(&c->stop)) {
        look l = {c, camp_now()};

        /* A store that is away just now is somebody else's business. */
        (void)hf_list(c->s, "camp/", note_entry, &l, NULL);
        if (atomic_load(&c->arena->crowd))
            pause_ms(TICK_MS / 5);
        else
            for (int i = 0; i < LOOK_MS / TICK_MS && !atomic_load(&c->stop);
                 i++)
                pause_ms(TICK_MS);
    }
    return NULL;
}

static void *notice_stalls(void *arg)
{
    camp_client *c = arg;
    int64_t before = camp_now();

    camp_name_thread();
    while (!atomic_load(&c->stop)) {
        pause_ms(TICK_MS);
        int64_t now = camp_now();

        if (now - before > (TICK_MS + STALL_MS) * INT64_C(1000000))
            camp_write(c, (camp_record){
                              .kind = CAMP_STALL, .called = before, .at = now});
        before = now;
    }
    return NULL;
}

/* ---- A child ------------------------------------------------------------ */

static void note_forked(camp_client *c, int code)
{
    camp_write(c, (camp_record){.kind = CAMP_FORKED, .code = code});
}

static void ask_as_child(camp_client *c)
{
    hf_hold *hold = NULL;

    alarm(30);
    note_forked(c, hf_try_lock(c->s, "camp/0", NULL, &hold, NULL));
    for (int i = 0; i < c->threads; i++) {
        hold = atomic_load(&c->shown[i]);
        if (!hold)
            continue;
        note_forked(c, hf_hold_check(hold, NULL));
        note_forked(c, hf_release(hold, NULL));
    }
    hf_close(c->s);
    _exit(0);
}

/* Every other child becomes another program at once: what it inherits must not
 * harm the parent.  It may have no memory or descriptors to begin, so how it
 * ends says nothing. */
static void have_a_child(camp_client *c)
{
    static bool changes;
    pid_t pid = fork();
    int status = 0;

    if (pid == 0 && changes) {
        execlp("true", "true", (char *)NULL);
        _exit(0);
    }
    if (pid == 0)
        ask_as_child(c);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status != 0 && !changes)
        note_forked(c, HF_EINTERNAL);
    changes = !changes;
}

/* ---- The process -------------------------------------------------------- */

/* The servers may be down just now, or refuse everybody. */
static int open_session(camp_client *c, const char *url)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = c->lease_ms,
                           .name = "campaign"};
    int64_t end = camp_now() + OPEN_S * INT64_C(1000000000);
    hf_error err;
    int code = hf_open(&c->s, url, &opt, &err);

    while (code != 0 && camp_now() < end &&
           (hf_error_class(code) < HF_CLASS_SETUP || code == HF_EAUTH ||
            code == HF_EPERM || code == HF_EPROTO)) {
        pause_ms(100);
        code = hf_open(&c->s, url, &opt, &err);
    }
    camp_write(c, (camp_record){.kind = CAMP_OPENED, .code = code});
    if (code != 0)
        fprintf(stderr, "%s: %s\n", hf_error_name(code), err.text);
    return code;
}

static void say_log(hf_log_level level, const char *line, void *user)
{
    (void)user;
    fprintf(stderr, "%.3f %d %s\n", (double)camp_now() / 1e9, (int)level, line);
}

static void serve_signals(camp_client *c, const sigset_t *set)
{
    int number = 0;

    while (sigwait(set, &number) == 0 && number != SIGTERM)
        have_a_child(c);
    atomic_store(&c->stop, true);
}

static int work(camp_client *c, uint64_t seed, const sigset_t *set)
{
    camp_worker workers[THREADS_MAX] = {0};
    pthread_t lister, watcher;

    for (int i = 0; i < c->threads; i++) {
        workers[i] =
            (camp_worker){.c = c,
                          .place = i,
                          .random = seed * 1000003 + (uint64_t)i * 7919 + 1};
        for (int n = 0; n < 20; n++) /* away from small numbers */
            camp_draw(&workers[i], 2);
        if (pthread_create(&workers[i].thread, NULL, camp_work, &workers[i]))
            return 1;
    }
    if (pthread_create(&lister, NULL, list_entries, c) ||
        pthread_create(&watcher, NULL, notice_stalls, c))
        return 1;
    serve_signals(c, set);
    for (int i = 0; i < c->threads; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_join(lister, NULL);
    pthread_join(watcher, NULL);
    return 0;
}

/* What is in the store after everybody has gone: it prints how many. */
static int count_entry(const hf_entry_info *e, void *user)
{
    fprintf(stderr, "'%s' token %llu\n", e->key, (unsigned long long)e->token);
    (*(int *)user)++;
    return 0;
}

static int look_for_residue(const char *url)
{
    /* Not longer than the longest lease that a store of ours allows. */
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 2000};
    hf_session *s = NULL;
    hf_hold *hold = NULL;
    int count = 0, code;
    hf_error err;

    code = hf_open(&s, url, &opt, &err);
    /* Who could not say goodbye is tidied up by whoever comes next: a visit,
     * of which the list tells what it was good for. */
    if (code == 0 && hf_try_lock(s, "camp/0", NULL, &hold, NULL) == 0)
        code = hf_release(hold, &err);
    if (code == 0)
        code = hf_list(s, NULL, count_entry, &count, &err);
    if (code != 0)
        fprintf(stderr, "%s: %s\n", hf_error_name(code), err.text);
    else
        printf("%d\n", count);
    hf_close(s);
    return code != 0;
}

static int open_files(camp_client *c, const char *folder)
{
    char path[600];
    int fd;

    snprintf(path, sizeof path, "%s/life-%05u.diary", folder, c->life);
    c->diary =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    snprintf(path, sizeof path, "%s/arena", folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    c->arena =
        mmap(NULL, sizeof *c->arena, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (c->diary < 0 || fd < 0 || c->arena == MAP_FAILED) {
        perror(path);
        return -1;
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    static camp_client c = {.loop = PTHREAD_MUTEX_INITIALIZER};
    camp_record end = {.kind = CAMP_END};
    sigset_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 3 && strcmp(argv[1], "--residue") == 0)
        return look_for_residue(argv[2]);
    if (argc != 8) {
        fprintf(stderr,
                "usage: %s URL FOLDER LIFE LEASE_MS KEYS THREADS "
                "SEED\n",
                argv[0]);
        return 2;
    }
    c.life = (uint32_t)strtoul(argv[3], NULL, 10) % CAMP_LIVES;
    c.lease_ms = strtoll(argv[4], NULL, 10);
    c.keys = (int)(strtoul(argv[5], NULL, 10) % (CAMP_KEYS + 1));
    c.threads = (int)(strtoul(argv[6], NULL, 10) % (THREADS_MAX + 1));
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (open_files(&c, argv[2]) != 0)
        return 2;
    hf_set_log(say_log, NULL, HF_LOG_WARN);
    end.token = (uint64_t)count_in("/proc/self/fd");
    camp_write(&c, (camp_record){.kind = CAMP_BEGIN,
                                 .token = end.token,
                                 .number = (uint64_t)getpid()});
    if (open_session(&c, argv[1]) != 0)
        return 1;
    c.caps = hf_session_caps(c.s);
    c.planted = getenv("HF_CAMPAIGN_PLANTED") != NULL;
    if (work(&c, strtoull(argv[7], NULL, 10), &set) != 0)
        return 1;
    hf_close(c.s);
    end.number = (uint64_t)count_in("/proc/self/fd");
    end.code = count_in("/proc/self/task") - 3; /* `.`, `..` and this one */
    camp_write(&c, end);
    return 0;
}
