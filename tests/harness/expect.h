/* expect.h - what a test says.  A failed expectation ends the test's process
 * with the place, the text and both values. */
#ifndef HF_TEST_EXPECT_H
#define HF_TEST_EXPECT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#define FAIL_TEST(...)                                                         \
    do {                                                                       \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                        \
        fprintf(stderr, __VA_ARGS__);                                          \
        fputc('\n', stderr);                                                   \
        fflush(NULL);                                                          \
        _Exit(1);                                                              \
    } while (0)

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition))                                                      \
            FAIL_TEST("expected: %s", #condition);                             \
    } while (0)

/* What must never be, however slow the machine is: two holders, a number that
 * falls.  scripts/check_run.py gives who says so no second run. */
#define EXPECT_SAFE(condition)                                                 \
    do {                                                                       \
        if (!(condition))                                                      \
            FAIL_TEST("unsafe: %s is not so", #condition);                     \
    } while (0)

#define EXPECT_EQ(a, b)                                                        \
    do {                                                                       \
        long long a_ = (long long)(a), b_ = (long long)(b);                    \
        if (a_ != b_)                                                          \
            FAIL_TEST("%s is %lld, expected %s = %lld", #a, a_, #b, b_);       \
    } while (0)

#define EXPECT_STR(a, b)                                                       \
    do {                                                                       \
        const char *a_ = (a), *b_ = (b);                                       \
        if (strcmp(a_, b_) != 0)                                               \
            FAIL_TEST("%s is \"%s\", expected \"%s\"", #a, a_, b_);            \
    } while (0)

#define EXPECT_HAS(text, part)                                                 \
    do {                                                                       \
        const char *a_ = (text), *b_ = (part);                                 \
        if (!strstr(a_, b_))                                                   \
            FAIL_TEST("%s is \"%s\", which lacks \"%s\"", #text, a_, b_);      \
    } while (0)

/* A holdfast call that must succeed; err is the hf_error it was given. */
#define EXPECT_OK(call, err)                                                   \
    do {                                                                       \
        int code_ = (call);                                                    \
        if (code_ != 0)                                                        \
            FAIL_TEST("%s: %s (%s)", #call, hf_error_name(code_), (err).text); \
    } while (0)

/* A holdfast call that must answer this code. */
#define EXPECT_CODE(call, code)                                                \
    do {                                                                       \
        int code_ = (call);                                                    \
        if (code_ != (code))                                                   \
            FAIL_TEST("%s answered %s, expected %s", #call,                    \
                      hf_error_name(code_), hf_error_name(code));              \
    } while (0)

#endif
