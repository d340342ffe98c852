/* error.h - filling hf_error. */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include <holdfast/driver.h>

/* Fill *err (may be NULL) in the core's name; returns code. */
int hf__error(hf_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, and a static analyser sees that the answer is the code. */
#define hf__error(err, code, ...)                                              \
    __extension__({                                                            \
        int hf_code_ = (code);                                                 \
        (hf__error)((err), hf_code_, __VA_ARGS__);                             \
        hf_code_;                                                              \
    })

/* Copy a driver's error to the caller, "what: text"; returns its code. */
int hf__error_wrap(hf_error *err, const hf_error *from, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The key as it may stand in a message: quoted, escaped, shortened. */
const char *hf__error_key(char *buf, size_t cap, const char *key, size_t len);

#endif
