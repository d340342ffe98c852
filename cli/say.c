/* say.c - what the command says about itself, on stderr.
 *
 * One line per message, in one write, beginning with "holdfast: ", or with
 * --json one object per line.  stdout is never touched here but by
 * say_output: under `run` it belongs to the command.  Also the one place that
 * turns an error of the library into an exit status.
 *
 * Lines come from the library's threads too (its log), so nothing here is
 * kept between calls but the two settings, made before threads exist, and,
 * behind a mutex, which lines of the log were said of late. */
#include "say.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static int say_level;
static bool say_json;

void say_setup(int level, bool json)
{
    say_level = level;
    say_json = json;
}

bool say_is_verbose(void)
{
    return say_level > 0;
}

bool say_is_json(void)
{
    return say_json && say_level >= 0;
}

void event_begin(struct json *j, struct text *out, const char *name)
{
    *out = (struct text){0};
    *j = (struct json){.out = out};
    json_open(j, NULL, '{');
    json_string(j, "event", name);
}

void event_end(struct json *j)
{
    json_close(j, '}');
    text_put(j->out, "\n");
    text_write(j->out, STDERR_FILENO);
    text_free(j->out);
}

/* The line as it is, whatever the level; `event` is its name in JSON. */
static void say_raw(const char *event, const char *prefix, const char *line)
{
    struct text out = {0};
    if (say_json) {
        struct json j;
        event_begin(&j, &out, event);
        json_string(&j, "text", line);
        event_end(&j);
        return;
    }
    text_format(&out, "%s: %s\n", prefix, line);
    text_write(&out, STDERR_FILENO);
    text_free(&out);
}

/* Messages are short but for keys and words of the user, which are cut. */
#define LINE_MAX_BYTES 1500
enum { LINES_REMEMBERED = 16, SAY_AGAIN_SECONDS = 60 };

void say_warn(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    if (say_level < 0)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    say_raw("warning", "holdfast", line);
}

void say_note(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    if (say_level < 1)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    say_raw("note", "holdfast", line);
}

void say_text(struct text *line)
{
    if (say_level >= 0 && line->data != NULL)
        say_raw("note", "holdfast", line->data);
    text_free(line);
}

/* Words of the command line may be anything: keep the terminal safe. */
static void make_printable(char *line)
{
    for (; *line != '\0'; line++)
        if ((unsigned char)*line < 0x20 || *line == 0x7f)
            *line = '?';
}

int say_usage(const char *command, const char *format, ...)
{
    char line[LINE_MAX_BYTES], prefix[64];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line) - 100, format, args);
    va_end(args);
    make_printable(line);
    size_t len = strlen(line);
    snprintf(line + len, sizeof(line) - len, " (try 'holdfast %s%s--help')",
             command, command[0] != '\0' ? " " : "");
    snprintf(prefix, sizeof(prefix), "holdfast%s%s", command[0] ? " " : "",
             command);
    say_raw("usage", prefix, line);
    return STATUS_USAGE;
}

int say_system(int code, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line) - 200, format, args);
    va_end(args);
    make_printable(line);
    size_t len = strlen(line);
    snprintf(line + len, sizeof(line) - len, ": %s", strerror(code));
    if (say_level >= 0)
        say_raw("error", "holdfast", line);
    return code == EACCES || code == EPERM ? STATUS_PERMISSION : STATUS_SYSTEM;
}

static int status_of_class(int code)
{
    switch (hf_error_class(code)) {
    case HF_CLASS_OK:
        return STATUS_OK;
    case HF_CLASS_NO:
        return STATUS_BUSY;
    case HF_CLASS_LOST:
        return STATUS_LOST;
    case HF_CLASS_UNKNOWN:
    case HF_CLASS_RETRY:
        return STATUS_UNAVAILABLE;
    case HF_CLASS_SETUP:
        return STATUS_CONFIG;
    case HF_CLASS_CALLER:
    case HF_CLASS_FATAL:
        break;
    }
    return STATUS_INTERNAL;
}

/* `native` is errno where the store is a file: a missing folder or a read-only
 * disk is cured neither by other rights nor by another kind of URL. */
static bool cannot_create(const hf_error *err)
{
    return strcmp(err->driver, "sqlite") == 0 &&
           (err->native == ENOENT || err->native == ENOTDIR ||
            err->native == EROFS);
}

int status_of(const hf_error *err)
{
    switch (err->code) {
    case HF_EAUTH:
        return STATUS_PERMISSION;
    case HF_EPERM:
        return cannot_create(err) ? STATUS_CREATE : STATUS_PERMISSION;
    case HF_EURL:
        return cannot_create(err) ? STATUS_CREATE : STATUS_CONFIG;
    case HF_EINVAL:
        return STATUS_USAGE;
    case HF_ENOTSUP:
    case HF_EKIND:
        return STATUS_CONFIG;
    case HF_EFULL:
    case HF_EDEADLK:
        return STATUS_UNAVAILABLE;
    case HF_ENOMEM:
        return STATUS_SYSTEM;
    default:
        return status_of_class(err->code);
    }
}

int say_failure(const hf_error *err)
{
    if (say_is_json()) {
        struct text out;
        struct json j;
        event_begin(&j, &out, "error");
        json_string(&j, "code", hf_error_name(err->code));
        json_string(&j, "text", err->text);
        json_string(&j, "driver", err->driver);
        json_number(&j, "native", err->native);
        event_end(&j);
    } else if (say_level >= 0) {
        say_raw("error", "holdfast", err->text);
    }
    return status_of(err);
}

/* A store that is away is tried several times a second, and each try says so:
 * who reads a job's mail wants each line once, and again if it goes on for
 * long.  The library's threads come here side by side. */
static bool said_lately(const char *line)
{
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        uint64_t hash;
        time_t until;
    } lines[LINES_REMEMBERED];
    static size_t next;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    struct timespec now;
    bool lately = false;

    for (const char *at = line; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&mu);
    for (size_t i = 0; i < LINES_REMEMBERED && !lately; i++)
        lately = lines[i].hash == hash && now.tv_sec < lines[i].until;
    if (!lately) {
        lines[next].hash = hash;
        lines[next].until = now.tv_sec + SAY_AGAIN_SECONDS;
        next = (next + 1) % LINES_REMEMBERED;
    }
    pthread_mutex_unlock(&mu);
    return lately;
}

static void log_line(hf_log_level level, const char *line, void *user)
{
    char copy[LINE_MAX_BYTES];
    (void)user;
    (void)level;
    if (say_level == 0 && said_lately(line))
        return;
    /* A loss is told by who holds the lock, with what was done about it. */
    if (say_level < 2 && strncmp(line, "lost ", 5) == 0)
        return;
    snprintf(copy, sizeof(copy), "%s", line);
    make_printable(copy);
    say_raw("log", "holdfast", copy);
}

void say_log(void)
{
    if (say_level >= 0)
        hf_set_log(log_line, NULL,
                   say_level == 0   ? HF_LOG_WARN
                   : say_level == 1 ? HF_LOG_INFO
                                    : HF_LOG_DEBUG);
}

int say_output(struct text *out)
{
    int code = text_write(out, STDOUT_FILENO);
    text_free(out);
    if (code == 0)
        return STATUS_OK;
    say_system(code, "cannot write the output");
    return STATUS_WRITE;
}
