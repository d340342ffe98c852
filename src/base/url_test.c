/* url_test.c - what a user may write to name a store, and what he is told when
 * it is wrong.  No message and no shown URL contains a password. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "base/url.h"

static hf_url *parse(const char *text)
{
    hf_url *url;
    hf_error err;

    EXPECT_OK(hf__url_parse(&url, text, &err), err);
    return url;
}

static void paths(void)
{
    static const char *const texts[][2] = {
        {"sqlite:locks.db", "locks.db"},
        {"sqlite:/abs/locks.db", "/abs/locks.db"},
        {"sqlite:///abs/locks.db", "/abs/locks.db"},
        {"sqlite:with%20blank%3F.db?sync=full", "with blank?.db"},
        {"redis://host", ""},
        {"mem:", ""},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hf_url *url = parse(texts[i][0]);

        EXPECT_STR(hfd_url_path(url), texts[i][1]);
        hf__url_free(url);
    }
}

static void authority(void)
{
    hf_url *url = parse("redis://us%40er:p%3Aw@a:1,[::1]:2,c/0?strict=yes&n=7");
    bool strict = false;
    int64_t n = 0;

    EXPECT_STR(hfd_url_scheme(url), "redis");
    EXPECT_STR(hfd_url_user(url), "us@er");
    EXPECT_STR(hfd_url_password(url), "p:w");
    EXPECT_EQ(hfd_url_host_count(url), 3);
    EXPECT_STR(hfd_url_host(url, 0), "a");
    EXPECT_EQ(hfd_url_port(url, 0), 1);
    EXPECT_STR(hfd_url_host(url, 1), "::1");
    EXPECT_EQ(hfd_url_port(url, 1), 2);
    EXPECT_EQ(hfd_url_port(url, 2), 0);
    EXPECT_STR(hfd_url_host(url, 3), "");
    EXPECT_STR(hfd_url_path(url), "/0");
    EXPECT_EQ(hfd_url_flag(url, "strict", &strict, NULL), 0);
    EXPECT(strict);
    EXPECT_EQ(hfd_url_number(url, "n", 1, 9, &n, NULL), 0);
    EXPECT_EQ(n, 7);
    EXPECT_EQ(hfd_url_number(url, "n", 8, 9, &n, NULL), HF_EURL);
    EXPECT_EQ(hfd_url_flag(url, "n", &strict, NULL), HF_EURL);
    hf__url_free(url);
}

static void secrets_are_not_shown(void)
{
    static const char *const texts[] = {
        "redis://u:hush@h/0",
        "redis://:hush@h/0?password=hush",
        "redis://h?api_token=hush&x=1",
        "redis://h?pass%77ord=hush",
        "odbc:DSN?pwd=hush",
        "odbc:DSN=x;PWD=hush",
        "odbc:DSN=x;pwd=hush;Server=y?prefix=z",
        "odbc:Password = hush",
        "odbc:DSN=x; PWD={a;}}hush;};x=y",
        "odbc:DSN=x;PWD={a;hush",
        "odbc:DSN=x%3BPW%44%3Dhush",
        "odbc:DSN=x;PWD=%7Ba;hush}?pwd=hush",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hf_url *url = parse(texts[i]);

        EXPECT(!strstr(hf__url_shown(url), "hush"));
        EXPECT_HAS(hf__url_shown(url), "***");
        hf__url_free(url);
    }
}

static void refused(void)
{
    static const char *const texts[] = {
        "",
        "plain",
        ":x",
        "SQLITE:x",
        "a b:x",
        "sqlite:a%0",
        "sqlite:a%00",
        "redis://h:0",
        "redis://h:99999",
        "redis://[::1",
        "mem:x?a",
        "mem:x?=1",
        "mem:x?a=1&a=2",
        "mem:x?a=%zz",
        "redis://u:hush@h:port",
        "redis://:hu?sh@h",
        "odbc:PWD=hu?hush",
        "DSN=x;PWD=hush",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hf_url *url;
        hf_error err = {0};

        EXPECT_CODE(hf__url_parse(&url, texts[i], &err), HF_EURL);
        EXPECT(err.text[0] && !strchr(err.text, '\n'));
        EXPECT(!strstr(err.text, "hush") && !strstr(err.text, "sh@h"));
    }
    EXPECT_CODE(hf__url_parse(&(hf_url *){NULL}, NULL, NULL), HF_EURL);
}

static void shims(void)
{
    hf_url *url = parse("fault+trace+mem:x?marks=no");
    hf_url *inner, *innermost;

    EXPECT_EQ(hf__url_inner(&inner, url, NULL), 0);
    EXPECT_STR(hfd_url_scheme(inner), "trace+mem");
    EXPECT_EQ(hf__url_inner(&innermost, inner, NULL), 0);
    EXPECT_STR(hfd_url_scheme(innermost), "mem");
    EXPECT_STR(hfd_url_option(innermost, "marks"), "no");
    EXPECT_EQ(hf__url_inner(&url, innermost, NULL), HF_EURL);
    hf__url_free(innermost);
    hf__url_free(inner);
    hf__url_free(url);
}

/* A wrong option is named, and beside it what would be right, as far as one
 * line holds it. */
static void options_are_listed(void)
{
    static const char *const few[] = {"sync", "network", NULL};
    static const char *const also[] = {"seed", NULL};
    static const char *const none[] = {NULL};
    const char *many[40];
    hf_url *good = parse("mem:x?network=no&seed=1");
    hf_url *wrong = parse("mem:x?frob=1");
    hf_error err;

    EXPECT_EQ(hf__url_check_options(good, few, also, &err), 0);
    EXPECT_CODE(hf__url_check_options(good, few, NULL, &err), HF_EURL);
    EXPECT_STR(err.text, "unknown option 'seed' in a 'mem:' URL; known are: "
                         "sync, network");
    EXPECT_CODE(hf__url_check_options(wrong, none, NULL, &err), HF_EURL);
    EXPECT_STR(err.text, "unknown option 'frob' in a 'mem:' URL");
    EXPECT_CODE(hf__url_check_options(wrong, NULL, NULL, NULL), HF_EURL);
    for (size_t i = 0; i < 39; i++)
        many[i] = "a_longer_name";
    many[39] = NULL;
    EXPECT_CODE(hf__url_check_options(wrong, many, NULL, &err), HF_EURL);
    EXPECT_HAS(err.text, "a_longer_name, a_longer_name, ");
    EXPECT_STR(err.text + strlen(err.text) - 5, ", ...");
    hf__url_free(wrong);
    hf__url_free(good);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(paths),   TEST(authority), TEST(secrets_are_not_shown),
        TEST(refused), TEST(shims),     TEST(options_are_listed),
    };

    return run_tests(argc, argv, "url", cases, sizeof cases / sizeof *cases);
}
