/* judge.h - was anybody inside who should not have been?
 *
 * A section is one hold, as its holder wrote it down.  The judge knows nothing
 * of locks or stores: only that who is alone is alone, and that of two who may
 * not be inside together the later one has the larger token. */
#ifndef HF_TESTS_STRESS_JUDGE_H
#define HF_TESTS_STRESS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct section {
    int32_t key;
    bool alone;
    uint64_t token;
    int64_t got_ns;  /* it was granted by then */
    int64_t gave_ns; /* it was still granted then */
} section;

typedef struct verdict {
    size_t sections;
    size_t overlaps; /* two inside who may not be together */
    size_t falls;    /* a later token that is not larger */
} verdict;

/* Sorts them. */
verdict judge(section *sections, size_t count);

#endif
