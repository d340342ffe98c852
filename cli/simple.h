/* simple.h - commands that open a store, ask it something and print. */
#ifndef CLI_SIMPLE_H
#define CLI_SIMPLE_H

#include "args.h"
#include "cli.h"
#include "json.h"
#include "say.h"

struct simple {
    struct common common;
    const char *word; /* the key or prefix; NULL: none given */
    uint64_t token;   /* --token; 0: none */
    bool now;         /* --now */
};

/* Read the words: at most one that is no option.  ARG_HELP (help is printed),
 * ARG_BAD or 0. */
int simple_read(const struct command *command, const struct arg_option *options,
                int argc, char **argv, struct simple *ret);

/* Find the store and open it.  0, or the exit status (said). */
int simple_open(struct simple *w, hf_session **ret);
/* The same for a command whose word is a key; `wish` is what is to be done. */
int simple_open_key(struct simple *w, const char *command, const char *wish,
                    hf_session **ret);

/* For the end of main_NAME: what simple_read's answer means as a status. */
int simple_status(int got);

#endif
