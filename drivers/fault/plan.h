/* plan.h - which operations fail, and how: the words of fault+X. */
#ifndef HF_DRIVERS_FAULT_PLAN_H
#define HF_DRIVERS_FAULT_PLAN_H

#include <sys/stat.h>

#include <holdfast/driver.h>

typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_BEFORE, /* not executed */
    FAULT_AFTER,  /* executed, the answer is lost */
    FAULT_BOTH,   /* one of the two, by chance */
    FAULT_SLOW    /* executed late */
} fault_kind;

typedef struct fault_plan {
    fault_kind kind;
    uint64_t nth;  /* this one, counted from 1; 0: none */
    uint32_t rate; /* percent */
    uint32_t ops;  /* bit per hf_op_kind */
    int64_t delay_ms;
    uint32_t drop_push; /* percent */
} fault_plan;

typedef struct fault_source {
    fault_plan base;  /* of the URL */
    fault_plan plan;  /* with what the file says */
    char path[512];   /* "": no file */
    struct stat seen; /* of the file when it was read; zero: absent */
    uint64_t count;   /* operations of plan.ops so far */
    uint64_t random;
} fault_source;

extern const char *const fault_options[];

int fault_source_init(fault_source *source, const hf_url *url, hf_error *err);
/* Decide about the next operation: never FAULT_BOTH.  *ret_unknown: a BEFORE
 * is to be told as unknown. */
fault_kind fault_source_draw(fault_source *source, hf_op_kind op,
                             bool *ret_unknown);
/* Is the next push lost? */
bool fault_source_drop_push(fault_source *source);

#endif
