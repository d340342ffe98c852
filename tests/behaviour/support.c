/* support.c - what every behaviour test needs around the public API.
 *
 * See support.h.  All waiting here is polling with a deadline: these helpers
 * must not depend on the wake-ups that the tests are about. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int run_on_target(int argc, char **argv, const char *suite,
                  const test_case *cases, size_t count, size_t shared_count)
{
    static char name[64];

    for (int i = 0; argc > 1 && test_targets[i] != NULL; i++) {
        if (strcmp(argv[1], test_targets[i]) == 0) {
            setenv("HOLDFAST_TEST_TARGET", argv[1], 1);
            argv[1] = argv[0];
            argv++;
            argc--;
            break;
        }
    }
    snprintf(name, sizeof(name), "%s.%s", suite, test_target());
    if (!store_is_shared())
        count -= shared_count;
    return run_tests(argc, argv, name, cases, count);
}

/* ---- The store of this test -------------------------------------------- */

const char *store_url(void)
{
    static const char *url;

    if (url == NULL)
        url = test_url("store", "", "");
    return url;
}

const char *store_url_switched(void)
{
    static const char *url;
    char path[512], option[600];

    if (url == NULL) {
        scratch_path("faults", path, sizeof(path));
        snprintf(option, sizeof(option), "fault_file=%s", path);
        url = test_url("store", "fault+", option);
    }
    return url;
}

void faults_set(const char *words)
{
    char path[512], fresh[512];

    scratch_path("faults", path, sizeof(path));
    if (words == NULL) {
        unlink(path);
        return;
    }
    /* A new file each time, in one step: a half-written one is never read. */
    scratch_path("faults.new", fresh, sizeof(fresh));
    FILE *f = fopen(fresh, "we");
    EXPECT(f != NULL && fprintf(f, "%s\n", words) > 0 && fclose(f) == 0);
    EXPECT(rename(fresh, path) == 0);
}

bool store_is_shared(void)
{
    return strncmp(test_target(), "mem", 3) != 0;
}

bool store_is_remote(void)
{
    return store_is_shared() && strcmp(test_target(), "sqlite") != 0;
}

bool store_sees_deaths(void)
{
    return strcmp(test_target(), "sqlite") == 0;
}

bool store_is_quorum(void)
{
    return strncmp(test_target(), "zookeeper", 9) == 0 ||
           strncmp(test_target(), "etcd", 4) == 0;
}

bool store_has_runs(void)
{
    return strcmp(test_target(), "mem-nomarks") != 0 && !store_is_quorum();
}

int64_t brief_lease_ms(void)
{
    /* ZooKeeper: two ticks of it are not ours. */
    return store_is_quorum() ? 2000 : 1000;
}

int64_t mortal_lease_ms(void)
{
    return store_sees_deaths() ? 1800000 : store_is_quorum() ? 2500 : 1500;
}

static atomic_uint_fast32_t last_caps;

bool store_has(uint32_t caps)
{
    return (atomic_load(&last_caps) & caps) == caps;
}

bool store_is_database(void)
{
    return store_is_remote() && strncmp(test_target(), "redis", 5) != 0 &&
           strcmp(test_target(), "sentinel") != 0 &&
           strncmp(test_target(), "cluster", 7) != 0 &&
           strcmp(test_target(), "redlock") != 0;
}

bool store_is_anothers(void)
{
    static const char *const layouts[] = {"-simple",  "-spring",   "-redisson",
                                          "-dlock",   "-shedlock", "-advisory",
                                          "-getlock", "-rowlock"};
    const char *name = strchr(test_target(), '-');

    if (strcmp(test_target(), "redlock") == 0)
        return true;
    for (size_t i = 0; name && i < sizeof(layouts) / sizeof(*layouts); i++) {
        if (strcmp(name, layouts[i]) == 0)
            return true;
    }
    return false;
}

bool store_marks_breaks(void)
{
    return !store_is_anothers();
}

int broken_code(void)
{
    return store_marks_breaks() ? HF_EFORCED : HF_EEXPIRED;
}

hf_lock_options options_of(hf_mode mode, uint32_t places)
{
    uint32_t cap = mode == HF_SHARED   ? HF_CAP_SHARED
                   : mode == HF_PERMIT ? HF_CAP_PERMIT
                                       : 0;

    if (!store_has(cap))
        return (hf_lock_options){HF_LOCK_OPTIONS};
    return (hf_lock_options){HF_LOCK_OPTIONS, .mode = mode,
                             .places = mode == HF_PERMIT ? places : 0};
}

const char *scratch_path(const char *name, char *buf, size_t size)
{
    int len = snprintf(buf, size, "%s/%s", test_folder(), name);

    EXPECT(len > 0 && (size_t)len < size);
    return buf;
}

hf_session *open_url(const char *url, int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    EXPECT(s != NULL);
    atomic_store(&last_caps, hf_session_caps(s));
    skip_if_unfit(hf_session_caps(s));
    return s;
}

hf_session *open_leased(int64_t lease_ms)
{
    return open_url(store_url(), lease_ms);
}

hf_session *open_store(void)
{
    return open_leased(0);
}

void skip_before_fork(void)
{
    hf_close(open_store()); /* which starts no thread by itself */
}

/* ---- Locks ------------------------------------------------------------- */

hf_hold *take_with(hf_session *s, const char *key, hf_lock_options opt)
{
    hf_hold *hold = NULL;
    hf_error err;

    if (opt.wait_ms == 0)
        opt.wait_ms = PATIENCE_MS;
    EXPECT_OK(hf_lock(s, key, &opt, &hold, &err), err);
    EXPECT(hold != NULL);
    return hold;
}

hf_hold *take(hf_session *s, const char *key)
{
    return take_with(s, key, (hf_lock_options){HF_LOCK_OPTIONS});
}

int probe_with(hf_session *s, const char *key, hf_lock_options opt)
{
    hf_hold *hold = NULL;
    hf_error err;
    int code = hf_try_lock(s, key, &opt, &hold, &err);

    if (code == 0)
        give(hold);
    else
        EXPECT(hold == NULL && err.code == code);
    return code;
}

int probe(hf_session *s, const char *key)
{
    return probe_with(s, key, (hf_lock_options){HF_LOCK_OPTIONS});
}

void give(hf_hold *hold)
{
    hf_error err;

    EXPECT_OK(hf_release(hold, &err), err);
}

static int count_entry(const hf_entry_info *entry, void *user)
{
    census *c = user;

    c->granted += entry->granted;
    c->waiting += !entry->granted;
    c->closed += entry->closed;
    c->broken += entry->broken;
    c->mine += entry->mine;
    return 0;
}

census count_entries(hf_session *s, const char *prefix)
{
    census c = {0};
    hf_error err;

    EXPECT_OK(hf_list(s, prefix, count_entry, &c, &err), err);
    return c;
}

void await_waiting(hf_session *s, const char *key, int n)
{
    /* Without a queue in the store a waiter is nowhere to be seen: it gets
     * the time to arrive. */
    if (store_has(HF_CAP_FIFO))
        AWAIT(count_entries(s, key).waiting == n);
    else
        sleep_ms(100);
}

/* Thousands may be on their way: patience begins anew with each step. */
void await_empty(hf_session *s)
{
    int64_t until = now_ms() + PATIENCE_MS;
    int least = INT_MAX;

    for (;;) {
        int64_t began = now_ms();
        census c = count_entries(s, NULL);
        int left = c.granted + c.waiting;

        if (left == 0)
            return;
        if (left < least)
            until = now_ms() + PATIENCE_MS;
        least = left;
        if (now_ms() > until)
            FAIL_TEST("waited in vain for an empty store: %d are left", left);
        /* A long listing takes its time from those who make it shorter. */
        sleep_ms(2 + now_ms() - began);
    }
}

void await_waiters(hf_session *s, uint64_t n)
{
    int64_t until = now_ms() + PATIENCE_MS;
    uint64_t seen = UINT64_MAX;
    hf_stats stats;

    for (;;) {
        EXPECT_CODE(hf_session_stats(s, &stats), 0);
        if (stats.waiters == n)
            return;
        if (stats.waiters != seen)
            until = now_ms() + PATIENCE_MS;
        seen = stats.waiters;
        if (now_ms() > until)
            FAIL_TEST("waited in vain for %d waiters: there are %d", (int)n,
                      (int)seen);
        sleep_ms(2);
    }
}

/* ---- Time, descriptors, process ---------------------------------------- */

int64_t now_ms(void)
{
    return test_now_ms();
}

void sleep_ms(int64_t ms)
{
    test_sleep_ms((int)ms);
}

bool is_readable(int fd, int64_t wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;

    do
        n = poll(&p, 1, (int)wait_ms);
    while (n < 0 && errno == EINTR);
    return n == 1 && (p.revents & POLLIN) != 0;
}

static int count_names(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    EXPECT(dir != NULL);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

int count_fds(void)
{
    return count_names("/proc/self/fd") - 1; /* opendir's own */
}

int count_threads(void)
{
    return count_names("/proc/self/task");
}

int64_t resident_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long total, resident = 0;

    EXPECT(f != NULL && fscanf(f, "%ld %ld", &total, &resident) == 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- A thread that wants a lock ---------------------------------------- */

static void *run_waiter(void *arg)
{
    waiter *w = arg;

    atomic_store(&w->self, hf_owner_self());
    w->code = hf_lock(w->s, w->key, &w->opt, &w->hold, &w->error);
    if (w->code == 0) {
        w->token = hf_hold_token(w->hold);
        if (w->turn != NULL)
            w->place = atomic_fetch_add(w->turn, 1);
    }
    atomic_store(&w->answered, true);
    if (w->code == 0) {
        while (!atomic_load(&w->let_go))
            sleep_ms(1);
        w->release_code = hf_release(w->hold, NULL);
    }
    return NULL;
}

void waiter_start_counted(waiter *w, hf_session *s, const char *key,
                          hf_lock_options opt, atomic_int *turn)
{
    memset(w, 0, sizeof(*w));
    w->s = s;
    w->key = key;
    w->turn = turn;
    w->opt = opt;
    if (opt.wait_ms == 0)
        w->opt.wait_ms = HF_FOREVER;
    EXPECT(pthread_create(&w->thread, NULL, run_waiter, w) == 0);
    AWAIT(atomic_load(&w->self) != 0);
}

void waiter_start(waiter *w, hf_session *s, const char *key,
                  hf_lock_options opt)
{
    waiter_start_counted(w, s, key, opt, NULL);
}

bool waiter_answered(waiter *w)
{
    return atomic_load(&w->answered);
}

int waiter_code(waiter *w)
{
    AWAIT(waiter_answered(w));
    return w->code;
}

int waiter_finish(waiter *w)
{
    int code = waiter_code(w);

    atomic_store(&w->let_go, true);
    EXPECT(pthread_join(w->thread, NULL) == 0);
    return code;
}

void on_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, fn, arg) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

/* ---- A process --------------------------------------------------------- */

void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    EXPECT(p != MAP_FAILED);
    return p;
}

pid_t spawn(int (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();

    EXPECT(pid >= 0);
    if (pid == 0) {
        int code = fn(arg);
        fflush(NULL);
        _exit(code);
    }
    return pid;
}

int reap(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) != pid)
        EXPECT(errno == EINTR);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void step_reach(atomic_int *step, int n)
{
    atomic_store(step, n);
}

void step_await(atomic_int *step, int n)
{
    AWAIT(atomic_load(step) >= n);
}
