/* url.c - any text as a store's URL.
 *
 * Promises: a text is parsed or refused with HF_EURL and one printable line;
 * the form for people parses again, hides the password and every option that
 * names a secret, changes nothing else, and is its own form for people. */
#include "fuzz.h"

#include <ctype.h>
#include <strings.h>

#include "base/url.h"

enum { TEXT_MAX = 6000 };

static int ends_with_secret(const char *name)
{
    static const char *const words[] = {"password", "token", "secret", "pwd"};
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word = strlen(words[i]);

        if (len >= word && strcasecmp(name + len - word, words[i]) == 0)
            return 1;
    }
    return 0;
}

static void check_error(const hf_error *err, int code)
{
    PROMISE(code == HF_EURL || code == HF_ENOMEM);
    PROMISE(err->code == code);
    PROMISE(memchr(err->text, '\0', sizeof err->text) != NULL);
    PROMISE(err->text[0] != '\0');
    PROMISE(strchr(err->text, '\n') == NULL);
}

/* The options that a driver would ask for, by name. */
static void check_options(const hf_url *url, const hf_url *shown)
{
    static const char *const names[] = {"password", "sslpassword", "token",
                                        "TOKEN",    "strict",      "lease",
                                        "a",        "secret",      "x_pwd"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *a = hfd_url_option(url, names[i]);
        const char *b = hfd_url_option(shown, names[i]);
        hf_error err;
        bool flag = false;
        int64_t number = 7;
        int code;

        PROMISE(!a == !b);
        if (a)
            PROMISE(strcmp(b, ends_with_secret(names[i]) ? "***" : a) == 0);
        code = hfd_url_flag(url, names[i], &flag, &err);
        if (code != 0)
            check_error(&err, code);
        code = hfd_url_number(url, names[i], -5, 1000, &number, &err);
        if (code != 0)
            check_error(&err, code);
        PROMISE(number >= -5 && number <= 1000);
    }
}

static void check_shown(const hf_url *url)
{
    hf_url *shown;
    hf_error err;

    PROMISE(hf__url_parse(&shown, hf__url_shown(url), &err) == 0);
    PROMISE(strcmp(hf__url_shown(url), hf__url_shown(shown)) == 0);
    PROMISE(strcmp(hfd_url_scheme(url), hfd_url_scheme(shown)) == 0);
    PROMISE(strcmp(hfd_url_user(url), hfd_url_user(shown)) == 0);
    /* What looks like a second URL inside the path, or like a connection
     * string, is hidden to be safe. */
    if (!strstr(hfd_url_path(url), "://") && !strchr(hfd_url_path(url), '='))
        PROMISE(strcmp(hfd_url_path(url), hfd_url_path(shown)) == 0);
    PROMISE(hfd_url_host_count(url) == hfd_url_host_count(shown));
    for (size_t i = 0; i <= hfd_url_host_count(url); i++) {
        PROMISE(strcmp(hfd_url_host(url, i), hfd_url_host(shown, i)) == 0);
        PROMISE(hfd_url_port(url, i) == hfd_url_port(shown, i));
    }
    if (hfd_url_password(url)[0])
        PROMISE(strcmp(hfd_url_password(shown), "***") == 0);
    check_options(url, shown);
    hf__url_free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"a", "b", NULL};
    char text[TEXT_MAX];
    hf_url *url, *inner;
    hf_error err;
    int code;

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    code = hf__url_parse(&url, text, &err);
    if (code != 0) {
        check_error(&err, code);
        return 0;
    }
    /* Stars lengthen a URL; one at the limit may not fit again. */
    if (strlen(hf__url_shown(url)) <= 4096)
        check_shown(url);
    code = hf__url_check_options(url, known, NULL, &err);
    if (code != 0)
        check_error(&err, code);
    code = hf__url_inner(&inner, url, &err);
    if (code != 0)
        check_error(&err, code);
    else
        hf__url_free(inner);
    hf__url_free(url);
    return 0;
}
