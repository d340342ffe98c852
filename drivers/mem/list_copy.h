/* list_copy.h - rows of a listing, copied so that they outlive the mutex. */
#ifndef HF_DRIVERS_MEM_LIST_COPY_H
#define HF_DRIVERS_MEM_LIST_COPY_H

#include <holdfast/driver.h>

typedef struct mem_copy mem_copy;
typedef struct mem_copies {
    mem_copy *rows, **end;
    bool failed;
} mem_copies;

/* An emit_row whose user is a zeroed mem_copies. */
int hf__mem_copy_row(const hf_row *row, void *user);
/* Tell them in order, until emit answers other than 0. */
void hf__mem_emit_copies(const mem_copies *copies,
                         int (*emit)(const hf_row *row, void *user),
                         void *user);
void hf__mem_free_copies(mem_copies *copies);

#endif
