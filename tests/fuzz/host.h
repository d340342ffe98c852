/* host.h - the core as a fuzzed driver sees it: whom it tells, and what it must
 * not say, whatever the server answered. */
#ifndef HF_FUZZ_HOST_H
#define HF_FUZZ_HOST_H

#include "fuzz.h"

#include <holdfast/driver.h>

static void changed(void *ctx, const hf_id *rid, const hf_place *fresh)
{
    (void)ctx;
    PROMISE(!fresh || rid);
}

static void news(void *ctx, const hf_id *rid, int reason)
{
    (void)ctx;
    PROMISE(rid && hf_error_class(reason) == HF_CLASS_LOST);
}

static void doubt(void *ctx, int reason, const char *text)
{
    (void)ctx;
    PROMISE(reason < 0 && text);
}

static void emit_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    (void)user;
    PROMISE(level <= HF_FAIL && name[0] != '\0' && text[0] != '\0');
}

static unsigned ended;

static void done(hf_op *op)
{
    (void)op;
    ended++;
}

#endif
