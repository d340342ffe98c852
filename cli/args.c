/* args.c - the words of a command line.
 *
 * getopt would do most of this, but not its complaints: a user who mistypes
 * should read one line that names the word and the way to help.  Options are
 * tables (`struct arg_option`); a command walks its words with args_next and
 * keeps what it likes.  Knows nothing of locks but the length of a key.
 *
 * Times are seconds with decimals, as with flock(1), or carry a unit (ms, s,
 * m, h, d).  They are read digit by digit: no locale, no floating point, no
 * overflow. */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "full.h"
#include "say.h"

/* What hf_open takes; `run` asks for more at least. */
enum { SESSION_LEAST_MS = 1000, SESSION_MOST_MS = 86400000 };

static int take_value(struct args *a, const struct arg_option *o,
                      const char *attached, const char **ret)
{
    if (attached == NULL && a->at < a->argc)
        attached = a->argv[a->at++];
    if (attached == NULL) {
        say_usage(a->command, "option '--%s' needs a value", o->name);
        return ARG_BAD;
    }
    *ret = attached;
    return o->id;
}

static int next_letter(struct args *a, const char **ret_value)
{
    char letter = *a->bundle++;
    const char *rest = a->bundle;
    if (*rest == '\0')
        a->bundle = NULL;
    for (const struct arg_option *o = a->options; o->id != 0; o++) {
        if (o->letter != letter)
            continue;
        if (!o->takes_value)
            return o->id;
        a->bundle = NULL;
        return take_value(a, o, *rest ? rest : NULL, ret_value);
    }
    say_usage(a->command, "unknown option '-%c'", letter);
    return ARG_BAD;
}

/* The option that `name` (len bytes) names, also cut short; NULL: none or
 * several, said. */
static const struct arg_option *find_long(const struct args *a,
                                          const char *name, size_t len)
{
    const struct arg_option *found = NULL;
    bool several = false;
    for (const struct arg_option *o = a->options; o->id != 0; o++) {
        if (strncmp(o->name, name, len) != 0)
            continue;
        if (o->name[len] == '\0')
            return o;
        several = several || (found != NULL && found->id != o->id);
        found = o;
    }
    if (several)
        say_usage(a->command, "option '--%.*s' could be several", (int)len,
                  name);
    else if (found == NULL)
        say_usage(a->command, "unknown option '--%.*s'", (int)len, name);
    return several ? NULL : found;
}

static int next_long(struct args *a, const char *word, const char **ret_value)
{
    size_t len = strcspn(word, "=");
    const struct arg_option *o = find_long(a, word, len);
    if (o == NULL)
        return ARG_BAD;
    const char *attached = word[len] == '=' ? word + len + 1 : NULL;
    if (o->takes_value)
        return take_value(a, o, attached, ret_value);
    if (attached == NULL)
        return o->id;
    say_usage(a->command, "option '--%s' takes no value", o->name);
    return ARG_BAD;
}

int args_next(struct args *a, const char **ret_value)
{
    if (a->bundle != NULL)
        return next_letter(a, ret_value);
    if (a->at >= a->argc)
        return ARG_END;
    char *word = a->argv[a->at++];
    if (a->words_only || word[0] != '-' || word[1] == '\0') {
        *ret_value = word;
        return ARG_WORD;
    }
    if (strcmp(word, "--") == 0) {
        a->words_only = true;
        return args_next(a, ret_value);
    }
    if (word[1] == '-')
        return next_long(a, word + 2, ret_value);
    a->bundle = word + 1;
    return next_letter(a, ret_value);
}

/* Milliseconds in one unit; 0: no such unit. */
static int64_t unit_of(const char *suffix)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1000},     {"ms", 1},      {"s", 1000},    {"m", 60000},
                 {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(suffix, units[i].name) == 0)
            return units[i].ms;
    return 0;
}

bool arg_span(const struct args *a, const char *name, const char *value,
              int64_t *ret_ms)
{
    const char *p = value;
    int64_t whole = 0, part = 0, scale = 1;
    bool digits = false, huge = false;
    for (; isdigit((unsigned char)*p); p++, digits = true) {
        huge = huge || whole > HF_MS_MAX;
        whole = huge ? whole : whole * 10 + (*p - '0');
    }
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p); p++, digits = true)
            if (scale < 1000000) {
                part = part * 10 + (*p - '0');
                scale *= 10;
            }
    int64_t unit = unit_of(p);
    if (value[0] == '-' && isdigit((unsigned char)value[1])) {
        say_usage(a->command, "%s '%s' is negative", name, value);
        return false;
    }
    if (!digits || unit == 0) {
        say_usage(a->command,
                  "%s '%s' is no time; say seconds, as in 2.5, or 500ms, 10m",
                  name, value);
        return false;
    }
    if (huge || whole > HF_MS_MAX / unit) {
        say_usage(a->command, "%s '%s' is too long; at most ten years", name,
                  value);
        return false;
    }
    /* Round up: half a millisecond asked for must not become "do not wait". */
    *ret_ms = whole * unit + (part * unit + scale - 1) / scale;
    return true;
}

bool arg_number(const struct args *a, const char *name, const char *value,
                uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t n = 0;
    bool good = *value != '\0';
    for (const char *p = value; *p != '\0' && good; p++) {
        good = isdigit((unsigned char)*p) &&
               !__builtin_mul_overflow(n, UINT64_C(10), &n) &&
               !__builtin_add_overflow(n, (uint64_t)(*p - '0'), &n);
    }
    if (good && n >= min && n <= max) {
        *ret = n;
        return true;
    }
    say_usage(a->command, "%s '%s' is not a number from %llu to %llu", name,
              value, (unsigned long long)min, (unsigned long long)max);
    return false;
}

bool arg_key(const struct args *a, const char *key)
{
    size_t len = strlen(key);
    if (len >= 1 && len <= HF_KEY_MAX)
        return true;
    if (len == 0)
        say_usage(a->command, "the key is empty; name what to lock");
    else
        say_usage(a->command, "the key has %zu bytes; at most %d are allowed",
                  len, HF_KEY_MAX);
    return false;
}

int common_take(struct common *c, const struct args *a, int id,
                const char *value)
{
    switch (id) {
    case ARG_URL:
        c->url = value;
        break;
    case ARG_URL_FILE:
        c->url_file = value;
        break;
    case ARG_JSON:
        c->json = true;
        break;
    case ARG_QUIET:
        c->quiet = true;
        break;
    case ARG_VERBOSE:
        c->verbose++;
        break;
    case ARG_OWNER:
        c->owner = value;
        break;
    case ARG_LEASE:
        if (!arg_span(a, "--lease", value, &c->lease_ms))
            return ARG_BAD;
        if (c->lease_ms < SESSION_LEAST_MS || c->lease_ms > SESSION_MOST_MS) {
            say_usage(a->command, "--lease '%s' is too %s", value,
                      c->lease_ms < SESSION_LEAST_MS
                          ? "short: at least 1 second"
                          : "long: at most a day");
            return ARG_BAD;
        }
        break;
    default:
        return 0;
    }
    if (c->url != NULL && c->url_file != NULL) {
        say_usage(a->command, "--url and --url-file exclude each other");
        return ARG_BAD;
    }
    say_setup(c->quiet ? -1 : c->verbose, c->json);
    return 1;
}

/* The first line of the file, without the blanks around it.  The buffer is
 * static: there is one URL in a run of the command. */
static int read_url_file(const char *path, const char **ret)
{
    static char line[4096];
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return say_system(errno, "cannot read the URL from '%s'", path);
    bool got = fgets(line, sizeof(line), f) != NULL;
    fclose(f);
    char *begin = line + (got ? strspn(line, " \t") : 0);
    size_t len = got ? strcspn(begin, "\r\n") : 0;
    while (len > 0 && (begin[len - 1] == ' ' || begin[len - 1] == '\t'))
        len--;
    begin[len] = '\0';
    if (len == 0) {
        say_warn("'%s' has no URL in its first line", path);
        return STATUS_CONFIG;
    }
    *ret = begin;
    return 0;
}

int common_settle(struct common *c)
{
    if (c->url_file != NULL) {
        c->url = full_handed_url();
        int status = c->url ? 0 : read_url_file(c->url_file, &c->url);
        if (status != 0)
            return status;
    }
    if (c->url != NULL && c->url[0] == '\0') {
        say_warn("the store's URL is empty; say for example "
                 "--url sqlite:/var/lib/app/locks.db");
        return STATUS_CONFIG;
    }
    return full_hand_over(c->url, c->url_file != NULL);
}

int common_open(const struct common *c, hf_session **ret)
{
    hf_error err;
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = c->lease_ms,
                           .name = c->owner};
    if (hf_open(ret, c->url, &opt, &err) != 0)
        return say_failure(&err);
    return 0;
}

const char *common_url(const struct common *c, hf_session *s)
{
    const char *given = c->url != NULL ? c->url : getenv("HOLDFAST_URL");

    /* The session's own text lacks the password, which a command that opens
     * the store again needs. */
    return given != NULL && given[0] != '\0' ? given : hf_session_url(s);
}
