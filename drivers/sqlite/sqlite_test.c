/* sqlite_test.c - what only the SQLite store has, part one: its files.
 *
 * Which files it makes and with which modes, what it refuses and in which
 * words, and that tokens never go back whatever is done to the file: removed,
 * restored from a copy, carried over a reboot. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { SPACE = 512 };

static const char *in_folder(const char *name)
{
    static char space[8][SPACE];
    static size_t next;
    char *path = space[next++ % 8];

    snprintf(path, SPACE, "%s/%s", test_folder(), name);
    return path;
}

static const char *url_of(const char *name)
{
    static char space[8][SPACE];
    static size_t next;
    char *url = space[next++ % 8];

    snprintf(url, SPACE, "sqlite:%s/%s", test_folder(), name);
    return url;
}

static hf_session *open_url(const char *url)
{
    hf_session *s;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, NULL, &err), err);
    return s;
}

/* Opening must answer this code, in words that have this part. */
static void refuse(const char *url, int code, const char *part)
{
    hf_session *s;
    hf_error err = {0};

    EXPECT_CODE(hf_open(&s, url, NULL, &err), code);
    EXPECT_HAS(err.text, part);
}

static void write_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    EXPECT(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

/* Whole files of these tests are below a megabyte. */
static void copy_file(const char *from, const char *to)
{
    static char data[1 << 20];
    int fd = open(from, O_RDONLY);
    ssize_t len;

    EXPECT(fd >= 0);
    len = read(fd, data, sizeof data);
    EXPECT(len >= 0);
    close(fd);
    write_file(to, data, (size_t)len);
}

static void run_sql(const char *name, const char *sql)
{
    sqlite3 *db;
    char *why = NULL;

    EXPECT_EQ(sqlite3_open(in_folder(name), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        FAIL_TEST("%s: %s", sql, why);
    EXPECT_EQ(sqlite3_close(db), SQLITE_OK);
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    if (stat(in_folder(name), &st) != 0)
        FAIL_TEST("no file '%s'", name);
    return st.st_mode & 0777;
}

static uint64_t take_once(hf_session *s, const char *key)
{
    hf_hold *hold;
    hf_error err;
    uint64_t token;

    EXPECT_OK(hf_lock(s, key, NULL, &hold, &err), err);
    token = hf_hold_token(hold);
    EXPECT_OK(hf_release(hold, &err), err);
    return token;
}

static void files_are_private(void)
{
    hf_session *s;

    umask(0);
    s = open_url(url_of("a.db"));
    take_once(s, "k");
    EXPECT_EQ(mode_of("a.db"), 0600);
    EXPECT_EQ(mode_of("a.db-hold"), 0600);
    EXPECT_EQ(mode_of("a.db-wal"), 0600);
    EXPECT_EQ(mode_of("a.db-shm"), 0600);
    hf_close(s);
}

static void path_forms(void)
{
    char url[SPACE];
    hf_session *a, *b;
    hf_hold *hold, *other;
    hf_error err;

    EXPECT(chdir(test_folder()) == 0);
    a = open_url("sqlite:with%20space.db");
    snprintf(url, sizeof url, "sqlite://%s/with%%20space.db", test_folder());
    b = open_url(url);
    EXPECT_OK(hf_lock(a, "k", NULL, &hold, &err), err);
    EXPECT_CODE(hf_try_lock(b, "k", NULL, &other, NULL), HF_EBUSY);
    /* A relative path means the folder it was opened in. */
    EXPECT(chdir("/") == 0);
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_OK(hf_try_lock(b, "k", NULL, &other, &err), err);
    EXPECT_CODE(hf_try_lock(a, "k", NULL, &hold, NULL), HF_EBUSY);
    hf_close(a);
    hf_close(b);
}

static void links_are_refused(void)
{
    hf_close(open_url(url_of("real.db")));
    EXPECT(symlink(in_folder("real.db"), in_folder("soft.db")) == 0);
    refuse(url_of("soft.db"), HF_EPROTO, "symbolic link");
    EXPECT(link(in_folder("real.db"), in_folder("hard.db")) == 0);
    refuse(url_of("hard.db"), HF_EPROTO, "2 names");
    EXPECT(unlink(in_folder("hard.db")) == 0);
    hf_close(open_url(url_of("real.db")));
    /* The side file too: writing through a link would hit another file. */
    EXPECT(symlink("/etc/passwd", in_folder("b.db-hold")) == 0);
    refuse(url_of("b.db"), HF_EPROTO, "symbolic link");
    /* A folder that is a link is how systems are built. */
    EXPECT(mkdir(in_folder("real"), 0700) == 0);
    EXPECT(symlink(in_folder("real"), in_folder("linked")) == 0);
    hf_close(open_url(url_of("linked/a.db")));
}

static void strange_paths(void)
{
    EXPECT(mkdir(in_folder("dir"), 0700) == 0);
    refuse(url_of("dir"), HF_EPROTO, "a folder");
    refuse(url_of("dir/"), HF_EURL, "names no file");
    refuse(url_of("none/a.db"), HF_EURL, "does not exist");
    refuse("sqlite:", HF_EURL, "names no file");
    refuse("sqlite://host/a.db", HF_EURL, "host");
    EXPECT(mkfifo(in_folder("fifo"), 0600) == 0);
    refuse(url_of("fifo"), HF_EPROTO, "a device");
}

static void wrong_options(void)
{
    refuse(url_of("a.db?sync=maybe"), HF_EURL, "sync");
    refuse(url_of("a.db?timeout=0"), HF_EURL, "timeout");
    refuse(url_of("a.db?network=perhaps"), HF_EURL, "network");
    refuse(url_of("a.db?colour=red"), HF_EURL, "colour");
    EXPECT(access(in_folder("a.db"), F_OK) != 0);
}

static void foreign_files(void)
{
    char junk[5000];

    memset(junk, 'x', sizeof junk);
    write_file(in_folder("junk.db"), junk, sizeof junk);
    refuse(url_of("junk.db"), HF_EPROTO, "not a database");
    run_sql("other.db", "CREATE TABLE invoices(id)");
    refuse(url_of("other.db"), HF_EPROTO, "something else");
    hf_close(open_url(url_of("new.db")));
    run_sql("new.db", "UPDATE hf_meta SET format = 3");
    refuse(url_of("new.db"), HF_EPROTO, "format 3, this one knows 1");
    write_file(in_folder("b.db-hold"), junk, 100);
    refuse(url_of("b.db"), HF_EPROTO, "b.db-hold");
}

/* The test process is its own, so it may give up its rights. */
static void become_nobody(void)
{
    if (geteuid() != 0)
        return;
    EXPECT(chmod(test_folder(), 0755) == 0);
    if (setgid(65534) != 0 || setuid(65534) != 0)
        skip_test("needs to give up root's rights");
}

static void no_rights(void)
{
    hf_close(open_url(url_of("a.db")));
    if (geteuid() == 0) {
        become_nobody();
    } else {
        EXPECT(chmod(in_folder("a.db"), 0) == 0);
        EXPECT(chmod(test_folder(), 0500) == 0);
    }
    refuse(url_of("a.db"), HF_EPERM, "a.db");
    refuse(url_of("new.db"), HF_EPERM, "new.db");
    if (geteuid() != 65534)
        EXPECT(chmod(test_folder(), 0700) == 0);
}

/* Removed and made anew: numbers go on where the old file's reserve ended. */
static void made_anew(void)
{
    hf_session *s = open_url(url_of("a.db"));
    uint64_t last = take_once(s, "k");

    hf_close(s);
    EXPECT(unlink(in_folder("a.db")) == 0);
    EXPECT(unlink(in_folder("a.db-wal")) == 0);
    s = open_url(url_of("a.db"));
    EXPECT(take_once(s, "k") > last);
    hf_close(s);
}

static void save_copy(const char *copy)
{
    run_sql("a.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    copy_file(in_folder("a.db"), in_folder(copy));
}

static void put_back(const char *copy)
{
    unlink(in_folder("a.db-wal"));
    unlink(in_folder("a.db-shm"));
    copy_file(in_folder(copy), in_folder("a.db"));
}

/* Use up more numbers than one reserve has. */
static uint64_t take_many(hf_session *s)
{
    uint64_t last = 0;

    for (int i = 0; i < 11000; i++)
        last = take_once(s, "k");
    return last;
}

static int warnings;

static void count_warning(hf_log_level level, const char *line, void *user)
{
    (void)user;
    if (level == HF_LOG_WARN && strstr(line, "older"))
        warnings++;
}

static void older_copy_is_repaired(void)
{
    hf_session *s = open_url(url_of("a.db"));
    uint64_t last;

    hf_set_log(count_warning, NULL, HF_LOG_WARN);
    take_once(s, "k");
    hf_close(s);
    save_copy("copy");
    s = open_url(url_of("a.db"));
    last = take_many(s);
    hf_close(s);
    put_back("copy");
    EXPECT_EQ(warnings, 0);
    s = open_url(url_of("a.db"));
    EXPECT_EQ(warnings, 1);
    EXPECT(take_once(s, "k") > last);
    hf_close(s);
    s = open_url(url_of("a.db"));
    EXPECT_EQ(warnings, 1); /* repaired for good */
    hf_close(s);
}

/* Another file under the name of one that is in use is not opened, and who
 * uses the old one learns that its locks are gone. */
static void replaced_in_use(void)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = 2000};
    hf_session *s;
    hf_hold *hold;
    hf_error err;

    EXPECT_OK(hf_open(&s, url_of("a.db"), &opt, &err), err);
    EXPECT_OK(hf_lock(s, "k", NULL, &hold, &err), err);
    EXPECT_EQ(hf_hold_check(hold, NULL), 0);
    EXPECT(rename(in_folder("a.db"), in_folder("old.db")) == 0);
    refuse(url_of("a.db"), HF_EPROTO, "while programs use it");
    EXPECT(WAIT_FOR(hf_hold_state(hold) == HF_LOST, 10000));
    EXPECT_CODE(hf_release(hold, NULL), HF_EEXPIRED);
    hf_close(s);
}

/* A power cut: the last commits are lost, the boot id is another.  Tokens that
 * were given and forgotten must not be given again. */
static void tokens_survive_power_cut(void)
{
    hf_session *s = open_url(url_of("a.db"));
    hf_hold *hold;
    hf_error err;
    uint64_t last;

    take_once(s, "k");
    hf_close(s);
    save_copy("copy");
    s = open_url(url_of("a.db"));
    for (int i = 0; i < 100; i++)
        take_once(s, "k");
    EXPECT_OK(hf_lock(s, "k", NULL, &hold, &err), err);
    last = hf_hold_token(hold);
    hf_close(s);
    put_back("copy");
    run_sql("a.db", "UPDATE hf_meta SET boot = 'another'");
    s = open_url(url_of("a.db"));
    EXPECT(take_once(s, "k") > last);
    hf_close(s);
}

/* What a boot leaves behind holds nothing in the next. */
static void reboot_frees(void)
{
    hf_session *s = open_url(url_of("a.db")), *t;
    hf_hold *hold, *other;
    hf_error err;
    uint64_t token;

    EXPECT_OK(hf_lock(s, "k", NULL, &hold, &err), err);
    token = hf_hold_token(hold);
    save_copy("copy");
    hf_close(s);
    put_back("copy");
    run_sql("a.db", "UPDATE hf_meta SET boot = 'another'");
    t = open_url(url_of("a.db"));
    EXPECT_OK(hf_try_lock(t, "k", NULL, &other, &err), err);
    EXPECT(hf_hold_token(other) > token);
    hf_close(t);
}

static void network_option(void)
{
    hf_session *a = open_url(url_of("n.db?network=yes")), *b;
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 10000};
    uint32_t gone = HF_CAP_PUSH | HF_CAP_LINEARIZABLE | HF_CAP_CRASH_AT_ONCE;
    hf_hold *hold, *other;
    hf_error err;

    EXPECT_EQ(hf_session_caps(a) & gone, 0);
    EXPECT(access(in_folder("n.db-hold"), F_OK) != 0);
    EXPECT(access(in_folder("n.db-wal"), F_OK) != 0);
    refuse(url_of("n.db"), HF_EPROTO, "network=yes");
    b = open_url(url_of("n.db?network=yes"));
    EXPECT_OK(hf_lock(a, "k", NULL, &hold, &err), err);
    EXPECT_CODE(hf_try_lock(b, "k", NULL, &other, NULL), HF_EBUSY);
    EXPECT_OK(hf_release(hold, &err), err);
    EXPECT_OK(hf_lock(b, "k", &opt, &other, &err), err);
    hf_close(a);
    hf_close(b);
    hf_close(open_url(url_of("l.db")));
    refuse(url_of("l.db?network=yes"), HF_EPROTO, "without");
}

/* A small disk of our own; the mount goes with this process's namespace. */
static void mount_small(const char *folder)
{
    EXPECT(mkdir(folder, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("small", folder, "tmpfs", 0, "size=1m") != 0)
        skip_test("needs the right to mount a small file system");
}

static void fill_disk(const char *path)
{
    static char zero[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    EXPECT(fd >= 0);
    while (write(fd, zero, sizeof zero) > 0)
        ;
    EXPECT_EQ(errno, ENOSPC);
    close(fd);
}

static void full_disk(void)
{
    hf_session *s, *near[3]; /* with s: the first page of the side file */
    hf_hold *hold;
    hf_error err = {0};
    char value[HF_VALUE_MAX];
    int code = 0;

    mount_small(in_folder("small"));
    memset(value, 'v', sizeof value);
    s = open_url(url_of("small/a.db"));
    take_once(s, "k");
    for (int i = 0; i < 3; i++)
        near[i] = open_url(url_of("small/a.db"));
    fill_disk(in_folder("small/ballast"));
    refuse(url_of("small/a.db"), HF_EUNAVAIL, "disk is full");
    for (int i = 0; i < 3; i++)
        hf_close(near[i]);
    /* The log may have room left for a few, and a release that fails leaves
     * its key busy. */
    for (int i = 0; i < 2000 && code == 0; i++) {
        hf_lock_options opt = {HF_LOCK_OPTIONS, .value = value,
                               .value_len = sizeof value};
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        code = hf_try_lock(s, key, &opt, &hold, &err);
        if (code == 0)
            hf_release(hold, NULL);
    }
    EXPECT_CODE(code, HF_EUNAVAIL);
    EXPECT_HAS(err.text, "disk is full");
    refuse(url_of("small/b.db"), HF_EUNAVAIL, "disk is full");
    EXPECT(unlink(in_folder("small/ballast")) == 0);
    EXPECT(WAIT_FOR(hf_try_lock(s, "other", NULL, &hold, &err) == 0, 5000));
    EXPECT_OK(hf_release(hold, &err), err);
    hf_close(s);
}

static void count_finding(hf_level level, const char *name, const char *text,
                          void *user)
{
    int *found = user;

    if (level != HF_FINE && strcmp(name, "space") != 0)
        FAIL_TEST("finding %s: %s", name, text);
    found[0]++;
}

static void doctor_is_content(void)
{
    hf_session *s = open_url(url_of("a.db"));
    hf_error err;
    int found = 0;

    EXPECT_OK(hf_doctor(s, count_finding, &found, &err), err);
    EXPECT(found >= 8);
    hf_close(s);
}

static const test_case cases[] = {
    TEST(files_are_private),
    TEST(path_forms),
    TEST(links_are_refused),
    TEST(strange_paths),
    TEST(wrong_options),
    TEST(foreign_files),
    TEST(no_rights),
    TEST(made_anew),
    TEST(older_copy_is_repaired),
    TEST(replaced_in_use),
    TEST(tokens_survive_power_cut),
    TEST(reboot_frees),
    TEST(network_option),
    TEST(full_disk),
    TEST(doctor_is_content),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "sqlite", cases,
                     sizeof cases / sizeof cases[0]);
}
