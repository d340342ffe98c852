/* log.c - one hook, four levels.
 *
 * The library never prints: it tells the hook, or nobody.  Lines are cut at
 * 400 bytes and made on the stack, so that logging a loss needs no memory; they
 * are one line each, whatever bytes a key has. */
#include <stdarg.h>
#include <stdio.h>

#include <holdfast/driver.h>

static hf_log_fn *log_fn;
static void *log_user;
static hf_log_level log_most;

void hf_set_log(hf_log_fn *fn, void *user, hf_log_level most)
{
    log_user = user;
    log_most = most;
    log_fn = fn;
}

void hfd_log(hf_log_level level, const char *format, ...)
{
    if (log_fn && level <= log_most) {
        char line[400];
        va_list args;

        va_start(args, format);
        vsnprintf(line, sizeof line, format, args);
        va_end(args);
        for (char *at = line; *at; at++) {
            if ((unsigned char)*at < 0x20 || *at == 0x7f)
                *at = '?'; /* keys are the caller's bytes */
        }
        log_fn(level, line, log_user);
    }
}
