/* bad_store.c - stores that cannot be opened or cannot go on.
 *
 * Checks hf_open: wrong URLs, options nobody knows, drivers that are missing,
 * files that are not ours, folders that may not be written, a disk that is
 * full.  Each gets its own code and one line that names the thing; each leaves
 * no descriptor, no thread and no file behind. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails with this code and a line that names `thing` (NULL: any). */
static void expect_no_store(const char *url, int code, const char *thing)
{
    hf_session *s = NULL;
    hf_error err = {0};
    int fds = count_fds(), threads = count_threads();
    int got = hf_open(&s, url, NULL, &err);

    if (got != code)
        FAIL_TEST("'%s' answered %s (%s), expected %s", url, hf_error_name(got),
                  err.text, hf_error_name(code));
    EXPECT(s == NULL && err.code == code);
    EXPECT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    if (thing != NULL)
        EXPECT_HAS(err.text, thing);
    EXPECT_EQ(count_fds(), fds);
    EXPECT_THREADS(threads);
}

/* ---- URLs -------------------------------------------------------------- */

static void bad_urls(void)
{
    /* If "" opened the default store, it would be made in here. */
    EXPECT(setenv("XDG_STATE_HOME", test_folder(), 1) == 0);
    expect_no_store("", HF_EURL, NULL);
    expect_no_store("nonsense", HF_EURL, NULL);
    expect_no_store(":", HF_EURL, NULL);
    expect_no_store("://", HF_EURL, NULL);
    expect_no_store("mem:x?%zz=1", HF_EURL, NULL);
    expect_no_store("mem:x?marks=maybe", HF_EURL, "marks");
}

static void unknown_options(void)
{
    expect_no_store("mem:x?colour=red", HF_EURL, "colour");
    expect_no_store("sqlite:x.db?colour=red", HF_EURL, "colour");
    EXPECT(access("x.db", F_OK) != 0);
}

/* A scheme without a driver: what to install. */
static void missing_driver(void)
{
    const char *path = getenv("HOLDFAST_DRIVER_PATH");
    char *kept = strdup(path ? path : "");

    /* A store that is known, and a machine that does not have it. */
    EXPECT(kept && setenv("HOLDFAST_DRIVER_PATH", test_folder(), 1) == 0);
    expect_no_store("etcd://127.0.0.1", HF_EDRIVER, "holdfast-etcd");
    EXPECT(setenv("HOLDFAST_DRIVER_PATH", kept, 1) == 0);
    free(kept);
    /* A name that is no known store's: as clear, whichever of the two. */
    static const char *const urls[] = {"nosuchstore:x", "fault+nosuchstore:x"};
    for (int i = 0; i < 2; i++) {
        hf_session *s = NULL;
        hf_error err = {0};
        int code = hf_open(&s, urls[i], NULL, &err);
        EXPECT(code == HF_EURL || code == HF_EDRIVER);
        EXPECT(s == NULL && err.code == code);
        EXPECT_HAS(err.text, "nosuchstore");
    }
}

/* ---- Files ------------------------------------------------------------- */

static char path[600], url[700];

static const char *url_of(const char *name)
{
    scratch_path(name, path, sizeof(path));
    snprintf(url, sizeof(url), "sqlite:%s", path);
    return url;
}

static void write_file(const char *name, const char *text)
{
    url_of(name);
    FILE *f = fopen(path, "we");
    EXPECT(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void not_a_database(void)
{
    char text[4096];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    write_file("notes.txt", text);
    expect_no_store(url_of("notes.txt"), HF_EPROTO, "notes.txt");
    /* It is as it was. */
    struct stat st;
    EXPECT(stat(path, &st) == 0 && st.st_size == sizeof(text) - 1);
}

static void not_a_file(void)
{
    hf_error err = {0};
    hf_session *s = NULL;

    url_of("folder");
    EXPECT(mkdir(path, 0700) == 0);
    EXPECT(hf_open(&s, url, NULL, &err) != 0);
    EXPECT(hf_error_class(err.code) == HF_CLASS_SETUP);
    EXPECT_HAS(err.text, "folder");
    url_of("missing/locks.db");
    EXPECT(hf_open(&s, url, NULL, &err) != 0);
    EXPECT_HAS(err.text, "missing");
    EXPECT(s == NULL);
}

/* A symbolic link could lead two programs to two files, or to another's. */
static void symlinks(void)
{
    char link_path[600];

    hf_session *s = open_url(url_of("real.db"), 0);
    hf_close(s);
    scratch_path("link.db", link_path, sizeof(link_path));
    EXPECT(symlink(path, link_path) == 0);
    hf_error err = {0};
    EXPECT(hf_open(&s, url_of("link.db"), NULL, &err) != 0);
    EXPECT(hf_error_class(err.code) == HF_CLASS_SETUP);
    EXPECT_HAS(err.text, "link.db");
}

static void private_files(void)
{
    struct stat st;

    umask(0);
    hf_session *s = open_url(url_of("locks.db"), 0);
    EXPECT(stat(path, &st) == 0);
    EXPECT_EQ(st.st_mode & 07777, 0600);
    hf_close(s);
}

/* As somebody who may not write there. */
static void become_nobody(void)
{
    EXPECT(chmod(test_folder(), 0755) == 0);
    if (geteuid() == 0)
        EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
}

static void unwritable_folder(void)
{
    url_of("closed");
    EXPECT(mkdir(path, 0555) == 0);
    become_nobody();
    expect_no_store(url_of("closed/locks.db"), HF_EPERM, "closed");
}

static void unreadable_file(void)
{
    hf_close(open_url(url_of("locks.db"), 0));
    EXPECT(chmod(path, 0) == 0);
    become_nobody();
    expect_no_store(url, HF_EPERM, "locks.db");
}

/* ---- A full disk ------------------------------------------------------- */

/* A small file system that only this process sees. */
static void mount_small(void)
{
    if (geteuid() != 0)
        skip_test("needs root to mount a small file system");
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        skip_test("needs a mount namespace");
    url_of("small");
    EXPECT(mkdir(path, 0700) == 0);
    if (mount("none", path, "tmpfs", 0, "size=2m") != 0)
        skip_test("needs the right to mount a small file system");
}

static void fill_disk(const char *file)
{
    static char block[4096];
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    EXPECT(errno == ENOSPC);
    close(fd);
}

/* Not applied, a clear error, nothing lost; and it goes on when there is
 * space again. */
static void full_disk(void)
{
    char filler[600], key[HF_KEY_MAX + 1];
    int refused = 0;

    mount_small();
    scratch_path("small/filler", filler, sizeof(filler));
    hf_session *s = open_url(url_of("small/locks.db"), 0);
    hf_hold *kept = take(s, "kept");
    fill_disk(filler);
    memset(key, 'k', sizeof(key));
    key[HF_KEY_MAX] = '\0';
    for (int i = 0; i < 2000 && refused == 0; i++) {
        hf_hold *hold = NULL;
        hf_error err = {0};
        int len = snprintf(key, sizeof(key), "%d", i);
        key[len] = 'k';
        int code = hf_try_lock(s, key, NULL, &hold, &err);
        if (code == 0)
            continue; /* kept: they fill what was reserved */
        EXPECT_CODE(code, HF_EUNAVAIL);
        EXPECT_HAS(err.text, "full");
        refused++;
    }
    EXPECT_EQ(refused, 1);
    EXPECT_CODE(hf_hold_check(kept, NULL), 0);
    /* A newcomer is told as clearly. */
    hf_session *other = NULL;
    hf_error err = {0};
    if (hf_open(&other, url, NULL, &err) != 0)
        EXPECT_CODE(err.code, HF_EUNAVAIL);
    else
        hf_close(other);
    EXPECT(unlink(filler) == 0);
    AWAIT(probe(s, "fresh") == 0);
    EXPECT_CODE(hf_hold_check(kept, NULL), 0);
    give(kept);
    hf_close(s);
    other = open_url(url, 0);
    await_empty(other);
    hf_close(other);
}

static const test_case cases[] = {
    TEST(bad_urls),       TEST(unknown_options),   TEST(missing_driver),
    TEST(not_a_database), TEST(not_a_file),        TEST(symlinks),
    TEST(private_files),  TEST(unwritable_folder), TEST(unreadable_file),
    TEST(full_disk),
};
RUN_ON_TARGET("bad_store", cases)
