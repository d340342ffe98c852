/* scope.c - what hf_with_lock is made of.
 *
 * The key is formatted into the stack; one that is too long or has a NUL byte
 * in it is refused, never cut: two different keys must not become one. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/internal.h"

hf_scope hf_scope_begin(hf_session *s, const hf_lock_options *opt,
                        hf_error *err, const char *format, ...)
{
    hf_scope scope = {.hold = NULL, .err = err};
    char key[HF_KEY_MAX + 2];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(key, sizeof key, format, args);
    va_end(args);
    if (err)
        memset(err, 0, sizeof *err);
    if (len < 0 || len > HF_KEY_MAX)
        hf__error(err, HF_EINVAL, "the key is longer than %d bytes",
                  HF_KEY_MAX);
    else if (strlen(key) != (size_t)len)
        hf__error(err, HF_EINVAL, "the key has a NUL byte in it");
    else
        hf_lock(s, key, opt, &scope.hold, err);
    return scope;
}

void hf_scope_end(hf_scope *scope)
{
    if (scope->hold) {
        hf_release(scope->hold, scope->err);
        scope->hold = NULL;
    }
}
