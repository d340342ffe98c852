/* say.h - what the command says about itself, on stderr. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <holdfast/holdfast.h>

#include "json.h"

/* level -1: quiet, 0: what matters, 1: -v, 2: -vv. */
void say_setup(int level, bool json);
bool say_is_verbose(void);
bool say_is_json(void);

/* A line, after "holdfast: ".  Of warn unless quiet, of note with -v. */
void say_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a line that was put together; empties it. */
void say_text(struct text *line);

/* These return the exit status that goes with it. */
int say_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_system(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_failure(const hf_error *err);
int status_of(const hf_error *err);

/* With --json: {"event": NAME, ...} and a line end, on stderr. */
void event_begin(struct json *j, struct text *out, const char *name);
void event_end(struct json *j);

/* Let the library's log speak here. */
void say_log(void);

/* Print it on stdout: STATUS_OK, or STATUS_WRITE with a line. */
int say_output(struct text *out);

#endif
