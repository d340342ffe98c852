/* quorum_worker.c - holdfast's part, and etcdctl's, in mixed runs with other
 * libraries on ZooKeeper and etcd.
 *
 *     quorum_worker run URL KEY TARGET LEAST FOLDER LOG
 *     quorum_worker etcdctl ENDPOINT KEY TARGET LEAST FOLDER LOG
 *     quorum_worker hold URL KEY [shared]
 *     quorum_worker section FOLDER LOG ASKED
 *
 * `run` takes the key again and again and writes down when it asked, had it and
 * gave it.  Inside the section it makes a folder that nobody else may have made
 * and removes it: the witness that no clock is needed for.  `etcdctl` does the
 * same by `etcdctl lock`, which runs us once more as `section`.  Both say
 * `ready`, wait for a line, and go on until all workers together have TARGET
 * sections and they have LEAST of their own.
 *
 * `hold` is told what to do, line by line: `take` is answered `held` once it
 * is, `give` by `given`.  CuratorWorker.java and kazoo_worker.py are alike. */
#include <errno.h>
#include <fcntl.h>
#include <holdfast/holdfast.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_SECONDS 200

static void die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* The same clock in all processes and languages of this test. */
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
        die("cannot count in '%s': %s", path, strerror(errno));
    close(fd);
    return is.st_size;
}

/* What is done while the key is ours. */
static void do_section(const char *folder, const char *log, long long asked)
{
    long long got = now_ns(), gave;
    char path[500];
    bool alone;
    FILE *f;

    snprintf(path, sizeof path, "%s/inside", folder);
    alone = mkdir(path, 0700) == 0;
    count_section(folder, true);
    pause_us(200);
    if (alone)
        rmdir(path);
    gave = now_ns();
    f = fopen(log, "ae");
    if (!f ||
        fprintf(f, "%lld %lld %lld %d\n", asked, got, gave, alone ? 1 : 2) < 0)
        die("cannot write '%s'", log);
    if (fclose(f) != 0)
        die("cannot write '%s'", log);
}

static hf_session *open_store(const char *url)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 5000};
    hf_session *s = NULL;
    hf_error err;

    if (hf_open(&s, url, &opt, &err) != 0)
        die("hf_open: %s", err.text);
    return s;
}

static void lock_once(hf_session *s, char **argv)
{
    long long asked = now_ns();
    hf_hold *hold;
    hf_error err;

    if (hf_lock(s, argv[3], NULL, &hold, &err) != 0)
        die("hf_lock: %s", err.text);
    do_section(argv[6], argv[7], asked);
    if (hf_release(hold, &err) != 0)
        die("hf_release: %s", err.text);
}

static void etcdctl_once(char **argv)
{
    char asked[32], endpoint[200];
    int status = 0;
    pid_t pid;

    snprintf(asked, sizeof asked, "%lld", now_ns());
    snprintf(endpoint, sizeof endpoint, "--endpoints=%s", argv[2]);
    pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0) {
        setenv("ETCDCTL_API", "3", 1);
        execlp("etcdctl", "etcdctl", endpoint, "lock", "--ttl=5", argv[3],
               argv[0], "section", argv[6], argv[7], asked, (char *)NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("etcdctl lock ended with %d", status);
}

static int run_sections(char **argv)
{
    bool ours = strcmp(argv[1], "run") == 0;
    long target = strtol(argv[4], NULL, 10), least = strtol(argv[5], NULL, 10);
    long long end = now_ns() + MAX_SECONDS * 1000000000LL;
    hf_session *s = ours ? open_store(argv[2]) : NULL;
    unsigned seed = (unsigned)getpid();
    long own = 0;

    say("ready");
    if (getchar() == EOF)
        die("nobody said go");
    while ((count_section(argv[6], false) < target || own < least) &&
           now_ns() < end) {
        if (ours)
            lock_once(s, argv);
        else
            etcdctl_once(argv);
        own++;
        pause_us(rand_r(&seed) % 4000);
    }
    hf_close(s);
    return 0;
}

static int hold_on_command(const char *url, const char *key, bool shared)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER,
                           .mode = shared ? HF_SHARED : HF_EXCLUSIVE};
    hf_session *s = open_store(url);
    hf_hold *hold = NULL;
    hf_error err;
    char line[64];

    say("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "take\n") == 0) {
            if (hf_lock(s, key, &opt, &hold, &err) != 0)
                die("hf_lock: %s", err.text);
            say("held");
        } else {
            if (hf_release(hold, &err) != 0)
                die("hf_release: %s", err.text);
            say("given");
        }
    }
    hf_close(s);
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";

    if (argc == 8 && (strcmp(verb, "run") == 0 || strcmp(verb, "etcdctl") == 0))
        return run_sections(argv);
    if (argc >= 4 && strcmp(verb, "hold") == 0)
        return hold_on_command(argv[2], argv[3], argc > 4);
    if (argc == 5 && strcmp(verb, "section") == 0) {
        do_section(argv[2], argv[3], strtoll(argv[4], NULL, 10));
        return 0;
    }
    die("usage: quorum_worker run|etcdctl|hold|section ...");
}
