/* error.c - codes, names, texts, and filling hf_error.
 *
 * The one list of codes is HF_ERROR_MAP in holdfast.h; this file turns it into
 * names, texts and classes.  Texts are one line: control bytes of a key are
 * escaped before they can reach a terminal or a log. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hf_strerror(int code)
{
#define TEXT(name, number, class_, text)                                       \
    case number:                                                               \
        return text;
    switch (code) {
    case 0:
        return "done";
        HF_ERROR_MAP(TEXT)
    default:
        return "unknown code";
    }
#undef TEXT
}

const char *hf_error_name(int code)
{
#define NAME(name, number, class_, text)                                       \
    case number:                                                               \
        return "HF_" #name;
    switch (code) {
    case 0:
        return "HF_OK";
        HF_ERROR_MAP(NAME)
    default:
        return "HF_?";
    }
#undef NAME
}

hf_class hf_error_class(int code)
{
#define CLASS(name, number, class_, text)                                      \
    case number:                                                               \
        return HF_CLASS_##class_;
    switch (code) {
    case 0:
        return HF_CLASS_OK;
        HF_ERROR_MAP(CLASS)
    default:
        return HF_CLASS_FATAL;
    }
#undef CLASS
}

const char *hf_version(void)
{
    return HF_VERSION_TEXT;
}

static void fill_error(hf_error *err, int code, const char *driver, int native,
                       const char *format, va_list args)
{
    err->code = code;
    err->native = native;
    memset(err->driver, 0, sizeof err->driver);
    snprintf(err->driver, sizeof err->driver, "%s", driver);
    vsnprintf(err->text, sizeof err->text, format, args);
    for (char *at = err->text; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?'; /* one line, and no orders to a terminal */
    }
}

int hfd_error(hf_error *err, int code, const char *driver, int native,
              const char *format, ...)
{
    if (err) {
        va_list args;

        va_start(args, format);
        fill_error(err, code, driver, native, format, args);
        va_end(args);
    }
    return code;
}

int(hf__error)(hf_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;

        va_start(args, format);
        fill_error(err, code, "", 0, format, args);
        va_end(args);
    }
    return code;
}

int hf__error_wrap(hf_error *err, const hf_error *from, const char *format, ...)
{
    int code = from->code;

    if (err) {
        hf_error inner = *from;
        va_list args;
        size_t used;

        va_start(args, format);
        fill_error(err, code, inner.driver, inner.native, format, args);
        va_end(args);
        used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s",
                 inner.text[0] ? inner.text : hf_strerror(code));
    }
    return code;
}

const char *hf__error_key(char *buf, size_t cap, const char *key, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)key[i];

        if (out + 8 > cap) {
            memcpy(buf + out, "...", 4);
            return buf;
        }
        if (c < 0x20 || c == 0x7f || c == '\'' || c == '\\') {
            buf[out++] = '\\';
            buf[out++] = 'x';
            buf[out++] = hex[c >> 4];
            buf[out++] = hex[c & 15];
        } else {
            buf[out++] = (char)c;
        }
    }
    buf[out] = '\0';
    return buf;
}

void hfd_finish(hf_op *op, hf_outcome outcome, int code)
{
    op->outcome = outcome;
    op->error.code = code;
    op->done(op);
}

void hfd_finding(hf_doctor_fn *emit, void *user, hf_level level,
                 const char *name, const char *format, ...)
{
    char text[700];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit(level, name, text, user);
}
