/* args.h - the words of a command line. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

/* What an option is called inside; each command lists those it knows. */
enum {
    ARG_END = 0,
    ARG_WORD = -1, /* not an option: *ret_value is the word */
    ARG_BAD = -2,  /* the complaint is printed: leave with STATUS_USAGE */
    ARG_HELP = 1,
    ARG_URL,
    ARG_URL_FILE,
    ARG_JSON,
    ARG_QUIET,
    ARG_VERBOSE,
    ARG_OWNER,
    ARG_LEASE,
    ARG_NONBLOCK,
    ARG_WAIT,
    ARG_SHARED,
    ARG_EXCLUSIVE,
    ARG_CONFLICT,
    ARG_COMMAND,
    ARG_NO_FORK,
    ARG_CLOSE,
    ARG_AT_MOST,
    ARG_AT_LEAST,
    ARG_SLOTS,
    ARG_KILL_AFTER,
    ARG_UNLOCK,
    ARG_TOKEN,
    ARG_NOW,
    ARG_SCHEMA,
    ARG_PREFIX,
    ARG_FORMAT,
    ARG_GUARD
};

struct arg_option {
    int id;
    char letter; /* 0: none */
    const char *name;
    bool takes_value;
};

/* For every command; the list of a command ends with {0}. */
#define ARG_COMMON_OPTIONS                                                     \
    {ARG_HELP, 'h', "help", false}, {ARG_URL, 0, "url", true},                 \
        {ARG_URL_FILE, 0, "url-file", true}, {ARG_JSON, 0, "json", false},     \
        {ARG_QUIET, 'q', "quiet", false},                                      \
    {                                                                          \
        ARG_VERBOSE, 'v', "verbose", false                                     \
    }

/* What single commands have besides; `run` and `hold` also those of take.h. */
#define ARG_RUN_OPTIONS                                                        \
    {ARG_COMMAND, 'c', "command", true}, {ARG_NO_FORK, 'F', "no-fork", false}, \
        {ARG_CLOSE, 'o', "close", false},                                      \
        {ARG_KILL_AFTER, 0, "kill-after", true},                               \
    {                                                                          \
        ARG_UNLOCK, 'u', "unlock", false                                       \
    }
#define ARG_BREAK_OPTIONS                                                      \
    {ARG_TOKEN, 0, "token", true},                                             \
    {                                                                          \
        ARG_NOW, 0, "now", false                                               \
    }
#define ARG_DDL_OPTIONS                                                        \
    {ARG_SCHEMA, 0, "schema", true}, {ARG_PREFIX, 0, "prefix", true},          \
        {ARG_FORMAT, 0, "format", true},                                       \
    {                                                                          \
        ARG_GUARD, 0, "guard", false                                           \
    }

struct args {
    const char *command; /* for complaints */
    const struct arg_option *options;
    int argc;
    char **argv;
    int at;             /* the next word; begin with 1 */
    const char *bundle; /* rest of a word like -nq */
    bool words_only;    /* after "--" */
};

/* The next option or word; see the enum.  A long name may be cut short as
 * long as it is clear; "--" ends the options. */
int args_next(struct args *a, const char **ret_value);

/* What the common options said. */
struct common {
    const char *url, *url_file, *owner;
    int64_t lease_ms;
    bool json, quiet;
    int verbose;
};

/* Take one of the common options, or ARG_OWNER, ARG_LEASE.  1: it was one,
 * 0: it was not, ARG_BAD: it was and is wrong. */
int common_take(struct common *c, const struct args *a, int id,
                const char *value);

/* Values.  True, or a complaint is printed.  `name` is the option's. */
bool arg_span(const struct args *a, const char *name, const char *value,
              int64_t *ret_ms);
bool arg_number(const struct args *a, const char *name, const char *value,
                uint64_t min, uint64_t max, uint64_t *ret);
bool arg_key(const struct args *a, const char *key);

/* All options are read: find the URL; another executable may take over.  0, or
 * the exit status (said). */
int common_settle(struct common *c);
/* A session as the options want it.  0, or the exit status (said already). */
int common_open(const struct common *c, hf_session **ret);
/* The URL to hand to a child: as given, or as opened. */
const char *common_url(const struct common *c, hf_session *s);

#endif
