/* fuzz.h - what a fuzz target is, and how it reads its input.
 *
 * A target is one function over bytes that anybody may have written; it ends
 * the process when a promise is broken.  clang's libFuzzer calls it
 * (scripts/fuzz.sh), or replay.c does with the seeds (./check fuzz). */
#ifndef HF_FUZZ_H
#define HF_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise; broken, it names itself and aborts, as both callers expect. */
#define PROMISE(condition)                                                     \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__,         \
                    #condition);                                               \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* The input, taken from the front; zeros once it is used up. */
typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;

static inline uint8_t take_byte(fuzz_input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static inline uint64_t take_number(fuzz_input *in, unsigned bytes)
{
    uint64_t number = 0;

    while (bytes-- > 0)
        number = number << 8 | take_byte(in);
    return number;
}

#endif
