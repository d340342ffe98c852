/* url.c - what a user writes to name a store.
 *
 *     scheme:path?name=value              sqlite:locks.db
 *     scheme://user:pw@h1:1,h2:2/path?... redis://:secret@a,b:6380/0?strict=yes
 *     scheme:name=value;name=value?...    odbc:DSN=locks;UID=me;PWD=secret
 *
 * Everything but the scheme may be percent-encoded; a decoded NUL byte is
 * refused everywhere, so that no accessor's string is shorter than it looks.
 * Messages and hf__url_shown never contain a password (url_shown.c).  Knows
 * nothing of drivers; each option is asked for by its name, and the registry
 * checks that none is left over. */
#include "base/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { URL_MAX = 4096, HOSTS_MAX = 32, OPTIONS_MAX = 64 };

typedef struct url_host {
    const char *name;
    uint16_t port;
} url_host;

typedef struct url_option {
    const char *name, *value;
} url_option;

struct hf_url {
    char *text;  /* as given */
    char *space; /* decoded pieces live here */
    char *shown;
    const char *scheme, *user, *password, *path;
    url_host hosts[HOSTS_MAX];
    size_t host_count;
    url_option options[OPTIONS_MAX];
    size_t option_count;
};

static bool is_scheme(const char *text, size_t len)
{
    if (len == 0 || !islower((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!islower(c) && !isdigit(c) && c != '+' && c != '-')
            return false;
    }
    return true;
}

static bool parse_port(const char *text, uint16_t *ret)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end || port == 0 || port > 65535)
        return false;
    *ret = (uint16_t)port;
    return true;
}

/* One of "name", "name:port", "[v6]:port". */
static bool parse_host(char *text, url_host *host)
{
    char *colon;

    if (*text == '[') {
        char *close = strchr(text, ']');

        if (!close || (close[1] && close[1] != ':'))
            return false;
        colon = close[1] ? close + 1 : NULL;
        *close = '\0';
        text++;
    } else {
        colon = strchr(text, ':');
        if (colon)
            *colon = '\0';
    }
    host->name = text;
    return *text && hf__url_decode(text) &&
           (!colon || parse_port(colon + 1, &host->port));
}

static int parse_authority(hf_url *url, char *text, hf_error *err)
{
    char *at = strrchr(text, '@');

    if (at) {
        char *colon;

        *at = '\0';
        colon = strchr(text, ':');
        if (colon) {
            *colon = '\0';
            url->password = colon + 1;
            if (!hf__url_decode(colon + 1))
                return hf__error(err, HF_EURL,
                                 "the password in the URL has a broken '%%' "
                                 "escape: write '%%25' for '%%'");
        }
        url->user = text;
        if (!hf__url_decode(text))
            return hf__error(err, HF_EURL,
                             "the user in the URL has a broken '%%' escape");
        text = at + 1;
    }
    while (text && *text) {
        char *comma = strchr(text, ',');

        if (comma)
            *comma++ = '\0';
        if (url->host_count == HOSTS_MAX)
            return hf__error(err, HF_EURL, "more than %d hosts in the URL",
                             HOSTS_MAX);
        if (!parse_host(text, &url->hosts[url->host_count]))
            return hf__error(err, HF_EURL,
                             "host %zu in the URL is wrong: write 'name', "
                             "'name:port' or '[v6]:port'",
                             url->host_count + 1);
        url->host_count++;
        text = comma;
    }
    return 0;
}

static int parse_options(hf_url *url, char *text, hf_error *err)
{
    while (text && *text) {
        char *next = strchr(text, '&');
        char *equals;

        if (next)
            *next++ = '\0';
        equals = strchr(text, '=');
        if (!equals || equals == text)
            return hf__error(err, HF_EURL,
                             "option '%.40s' in the URL has no value: write "
                             "name=value ('?' in a password is '%%3F')",
                             hf__url_may_be_secret(text) ||
                                     hf__url_may_be_secret(url->text)
                                 ? "..."
                                 : text);
        *equals = '\0';
        if (!hf__url_decode(text) || !hf__url_decode(equals + 1))
            return hf__error(err, HF_EURL,
                             "option '%.40s' in the URL has a broken '%%' "
                             "escape: write '%%25' for '%%'",
                             text);
        if (hfd_url_option(url, text))
            return hf__error(err, HF_EURL,
                             "option '%.40s' in the URL is there "
                             "twice",
                             text);
        if (url->option_count == OPTIONS_MAX)
            return hf__error(err, HF_EURL, "more than %d options in the URL",
                             OPTIONS_MAX);
        url->options[url->option_count++] =
            (url_option){.name = text, .value = equals + 1};
        text = next;
    }
    return 0;
}

static int parse_pieces(hf_url *url, hf_error *err)
{
    char *text = url->space;
    char *colon = strchr(text, ':');
    char *query;
    int code = 0;

    if (!colon || !is_scheme(text, (size_t)(colon - text)))
        return hf__error(err, HF_EURL,
                         "'%.60s' is not a store's URL: write for example "
                         "sqlite:/path/to/locks.db",
                         hf__url_may_be_secret(text) ? "the text given" : text);
    *colon = '\0';
    url->scheme = text;
    text = colon + 1;
    query = strchr(text, '?');
    if (query)
        *query++ = '\0';
    if (strncmp(text, "//", 2) == 0) {
        char *slash = strchr(text + 2, '/');

        /* The path keeps its slash; the authority is cut off before it by
         * moving it one byte down, over the slashes that are done with. */
        if (slash) {
            memmove(text, text + 2, (size_t)(slash - text - 2));
            text[slash - text - 2] = '\0';
            url->path = slash;
        } else {
            text += 2;
        }
        code = parse_authority(url, text, err);
    } else {
        url->path = text;
    }
    if (code == 0 && !hf__url_decode((char *)(uintptr_t)url->path))
        code = hf__error(err, HF_EURL,
                         "the path in the URL has a broken '%%' escape: write "
                         "'%%25' for '%%'");
    return code ? code : parse_options(url, query, err);
}

int hf__url_parse(hf_url **ret, const char *text, hf_error *err)
{
    size_t len = text ? strlen(text) : 0;
    hf_url *url;
    int code;

    if (len == 0 || len > URL_MAX)
        return hf__error(err, HF_EURL,
                         len ? "the URL is longer than %d bytes"
                             : "the URL is empty: write for example "
                               "sqlite:/path/to/locks.db",
                         URL_MAX);
    url = hfd_alloc(sizeof *url);
    if (!url)
        return hf__error(err, HF_ENOMEM, "out of memory");
    url->user = url->password = "";
    url->text = hf__alloc_text(text, len);
    url->space = hf__alloc_text(text, len + 1);
    url->shown = hfd_alloc(2 * len + 16);
    if (!url->text || !url->space || !url->shown) {
        hf__url_free(url);
        return hf__error(err, HF_ENOMEM, "out of memory");
    }
    url->path = url->space + len; /* "" */
    hf__url_show(url->shown, text);
    code = parse_pieces(url, err);
    if (code) {
        hf__url_free(url);
        return code;
    }
    *ret = url;
    return 0;
}

int hf__url_inner(hf_url **ret, const hf_url *url, hf_error *err)
{
    const char *plus = strchr(url->text, '+');

    if (!plus || (size_t)(plus - url->text) > strlen(url->scheme))
        return hf__error(err, HF_EURL,
                         "'%s' wraps nothing: write %s+sqlite:...", url->scheme,
                         url->scheme);
    return hf__url_parse(ret, plus + 1, err);
}

void hf__url_free(hf_url *url)
{
    if (url) {
        hfd_free(url->text);
        hfd_free(url->space);
        hfd_free(url->shown);
        hfd_free(url);
    }
}

const char *hf__url_shown(const hf_url *url)
{
    return url->shown;
}

static bool is_listed(const char *name, const char *const *list)
{
    for (; list && *list; list++) {
        if (strcmp(name, *list) == 0)
            return true;
    }
    return false;
}

/* The names with commas between them.  What does not fit becomes "...": a
 * message has one line, and the driver's page has them all. */
static void join_names(char *buf, size_t cap, const char *const *list)
{
    size_t len = 0;

    for (; *list; list++) {
        const char *comma = len ? ", " : "";
        size_t more = strlen(comma) + strlen(*list);

        if (len + more + sizeof ", ..." > cap) {
            snprintf(buf + len, cap - len, "%s...", comma);
            return;
        }
        snprintf(buf + len, cap - len, "%s%s", comma, *list);
        len += more;
    }
}

int hf__url_check_options(const hf_url *url, const char *const *known,
                          const char *const *also_known, hf_error *err)
{
    for (size_t i = 0; i < url->option_count; i++) {
        const char *name = url->options[i].name;
        char line[sizeof err->text];
        int len;

        if (is_listed(name, known) || is_listed(name, also_known))
            continue;
        len = snprintf(line, sizeof line,
                       "unknown option '%.40s' in a '%s:' URL%s", name,
                       url->scheme, known && *known ? "; known are: " : "");
        if (known && len > 0 && (size_t)len < sizeof line)
            join_names(line + len, sizeof line - (size_t)len, known);
        return hf__error(err, HF_EURL, "%s", line);
    }
    return 0;
}

const char *hfd_url_scheme(const hf_url *url)
{
    return url->scheme;
}

const char *hfd_url_user(const hf_url *url)
{
    return url->user;
}

const char *hfd_url_password(const hf_url *url)
{
    return url->password;
}

size_t hfd_url_host_count(const hf_url *url)
{
    return url->host_count;
}

const char *hfd_url_host(const hf_url *url, size_t i)
{
    return i < url->host_count ? url->hosts[i].name : "";
}

uint16_t hfd_url_port(const hf_url *url, size_t i)
{
    return i < url->host_count ? url->hosts[i].port : 0;
}

const char *hfd_url_path(const hf_url *url)
{
    return url->path;
}

const char *hfd_url_option(const hf_url *url, const char *name)
{
    for (size_t i = 0; i < url->option_count; i++) {
        if (strcmp(url->options[i].name, name) == 0)
            return url->options[i].value;
    }
    return NULL;
}

int hfd_url_flag(const hf_url *url, const char *name, bool *io, hf_error *err)
{
    const char *value = hfd_url_option(url, name);

    if (!value)
        return 0;
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
        return hf__error(err, HF_EURL,
                         "option '%s' is 'yes' or 'no', not "
                         "'%.40s'",
                         name, value);
    *io = value[0] == 'y';
    return 0;
}

int hfd_url_number(const hf_url *url, const char *name, int64_t min,
                   int64_t max, int64_t *io, hf_error *err)
{
    const char *value = hfd_url_option(url, name);
    char *end;
    long long number;

    if (!value)
        return 0;
    number = strtoll(value, &end, 10);
    if (end == value || *end || isspace((unsigned char)*value) ||
        number < min || number > max)
        return hf__error(err, HF_EURL,
                         "option '%s' is a number from %lld to %lld, not "
                         "'%.40s'",
                         name, (long long)min, (long long)max, value);
    *io = number;
    return 0;
}
