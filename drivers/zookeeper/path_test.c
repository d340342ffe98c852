/* path_test.c - keys as paths: no two meet, each is read back, each is one
 * that the server takes, and ordinary ones are themselves. */
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/driver.h>

#include "harness/expect.h"
#include "harness/runner.h"
#include "name.h"

enum { ROOM = ZK_PATH_ROOM(ZK_ROOT_MAX, HF_KEY_MAX) };

/* What the server demands of a path (its documentation), written once more. */
static void expect_taken(const char *path, size_t len)
{
    EXPECT(path[0] == '/' && (len == 1 || path[len - 1] != '/'));
    for (size_t i = 0, from = 1; i <= len; i++) {
        unsigned char c = (unsigned char)path[i];

        EXPECT(i == len || (c > 0x1f && c != 0x7f && c < 0xf0));
        if ((i < len && c != '/') || i == 0)
            continue;
        EXPECT(i > from);
        EXPECT(!(i - from == 1 && path[from] == '.'));
        EXPECT(!(i - from == 2 && memcmp(path + from, "..", 2) == 0));
        from = i + 1;
    }
}

static void expect_round_trip(const char *root, const char *key, size_t len)
{
    char path[ROOM], back[ROOM];
    size_t root_len = strlen(root);
    size_t n = zk_path_write(path, root, root_len, key, len), back_len;

    EXPECT(n < ZK_PATH_ROOM(root_len, len));
    EXPECT_EQ(strlen(path), n);
    expect_taken(path, n);
    EXPECT(zk_path_read(back, &back_len, root, root_len, path, n));
    EXPECT_EQ(back_len, len);
    EXPECT(memcmp(back, key, len) == 0);
    EXPECT(zk_path_is_key(root, root_len, path, n));
}

/* Every string of up to four bytes from an alphabet of trouble: since each is
 * read back as it was, no two have one path. */
static void all_short_keys(void)
{
    static const char alphabet[] = {'/',    '.',    '%',    'a',    '2',
                                    'F',    '\x01', '\x1f', '\x7f', '\x80',
                                    '\xc2', '\x9f', '\xa0', '\xee', '\xef',
                                    '\xbf', '\xb0', '\xf0', '\xff', ' '};
    enum { N = sizeof alphabet };
    static const char *const roots[] = {"", "/app", "/a/b"};

    for (size_t r = 0; r < 3; r++) {
        for (size_t len = 1; len <= 4; len++) {
            size_t count = 1;

            for (size_t i = 0; i < len; i++)
                count *= N;
            for (size_t i = 0; i < count; i++) {
                char key[4];

                for (size_t k = 0, rest = i; k < len; k++, rest /= N)
                    key[k] = alphabet[rest % N];
                expect_round_trip(roots[r], key, len);
            }
        }
    }
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Said once more without reading back: names of trouble in every mixture. */
static void mixtures_differ(void)
{
    static const char *const names[] = {"",
                                        ".",
                                        "..",
                                        "a",
                                        "%61",
                                        "locks",
                                        "leases",
                                        "zookeeper",
                                        "holdfast",
                                        "%68oldfast",
                                        "lock-0000000001",
                                        "x__lock__0000000007",
                                        "x__READ__0000000007",
                                        "lock-000000000"};
    enum { N = sizeof names / sizeof *names, COUNT = N * N * N };
    static const char *const roots[] = {"", "/app"};
    static char *paths[COUNT];

    for (size_t r = 0; r < 2; r++) {
        size_t n = 0;

        for (size_t i = 0; i < COUNT; i++) {
            char key[200];
            int len = snprintf(key, sizeof key, "%s/%s/%s", names[i % N],
                               names[i / N % N], names[i / N / N]);
            char path[ROOM];

            expect_round_trip(roots[r], key, (size_t)len);
            zk_path_write(path, roots[r], strlen(roots[r]), key, (size_t)len);
            paths[n++] = strdup(path);
        }
        qsort(paths, n, sizeof *paths, compare_texts);
        for (size_t i = 1; i < n; i++)
            EXPECT(strcmp(paths[i - 1], paths[i]) != 0);
        for (size_t i = 0; i < n; i++)
            free(paths[i]);
    }
}

static void expect_path(const char *root, const char *key, const char *wanted)
{
    char path[ROOM];

    zk_path_write(path, root, strlen(root), key, strlen(key));
    EXPECT_STR(path, wanted);
}

static void ordinary_names_are_themselves(void)
{
    expect_path("/app", "nightly", "/app/nightly");
    expect_path("/app", "jobs/nightly", "/app/jobs/nightly");
    expect_path("/app", "caf\xc3\xa9 1", "/app/caf\xc3\xa9 1");
    expect_path("/app", "/nightly", "/app/%2Fnightly");
    expect_path("", "/locks/invoice", "/locks/invoice");
    expect_path("", "/locks", "/locks");
    expect_path("", "nightly", "/holdfast/nightly");
    expect_path("", "/", "/holdfast/%2F");
    expect_path("", "/holdfast/x", "/%68oldfast/x");
    expect_path("", "/zookeeper/x", "/%7Aookeeper/x");
    expect_path("/app", "zookeeper", "/app/zookeeper");
    expect_path("/app", "a/locks", "/app/a/%6Cocks");
    expect_path("/app", "a/locks/b", "/app/a/locks/b");
    expect_path("/app", "a//b/", "/app/a%2F%2Fb%2F");
    expect_path("/app", "a/lock-0000000001", "/app/a/lock-000000000%31");
    expect_path("/app", "..", "/app/%2E.");
    expect_path("/app", "100%", "/app/100%25");
    expect_path("/app", "\xf0\x9f\x98\x80", "/app/%F0%9F%98%80");
}

static void strange_paths_are_no_keys(void)
{
    static const char *const paths[] = {"/app/100%",
                                        "/app/%2f",
                                        "/app/%41",
                                        "/app/%zz",
                                        "/app",
                                        "/app/a%",
                                        "/app/a/locks",
                                        "/apple/a",
                                        "/other/a",
                                        "/app/%4",
                                        "/app/lock-0000000001"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (zk_path_is_key("/app", 4, paths[i], strlen(paths[i])))
            FAIL_TEST("'%s' was taken for a key's", paths[i]);
    }
    EXPECT(!zk_path_is_key("", 0, "/holdfast", 9));
    EXPECT(!zk_path_is_key("", 0, "/", 1));
}

static void roots(void)
{
    static const char *const good[] = {"", "/a", "/a/b", "/a%b", "/\xc3\xa9"};
    static const char *const bad[] = {
        "a",     "/",      "/a/",   "//a",        "/a//b",       "/./a",
        "/a/..", "/a\x01", "/\xff", "/zookeeper", "/zookeeper/x"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        EXPECT(zk_path_is_root(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (zk_path_is_root(bad[i], strlen(bad[i])))
            FAIL_TEST("'%s' was taken for a root", bad[i]);
    }
}

/* Keys as long as they come, of every byte. */
static void long_keys(void)
{
    char key[HF_KEY_MAX];

    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)(1 + i % 255);
    expect_round_trip("", key, sizeof key);
    expect_round_trip("/app", key, sizeof key);
    memset(key, '/', sizeof key);
    expect_round_trip("/app", key, sizeof key);
    memset(key, 'x', sizeof key);
    expect_round_trip("/app", key, sizeof key);
}

static const test_case cases[] = {TEST_LIMIT(all_short_keys, 120),
                                  TEST(mixtures_differ),
                                  TEST(ordinary_names_are_themselves),
                                  TEST(strange_paths_are_no_keys),
                                  TEST(roots),
                                  TEST(long_keys)};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "zookeeper paths", cases,
                     sizeof cases / sizeof *cases);
}
