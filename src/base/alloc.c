/* alloc.c - all memory of the library, through one replaceable function.
 *
 * A test replaces it to fail the n-th request, a program to count or to pool.
 * Knows nothing of what is allocated.  Memory from hfd_alloc is zeroed, so a
 * struct starts in its empty state. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *libc_realloc(void *p, size_t size, void *user)
{
    (void)user;
    if (size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, size);
}

static hf_realloc_fn *realloc_fn = libc_realloc;
static void *realloc_user;

void hf_set_alloc(hf_realloc_fn *fn, void *user)
{
    realloc_fn = fn ? fn : libc_realloc;
    realloc_user = user;
}

void *hfd_realloc(void *p, size_t size)
{
    return realloc_fn(p, size, realloc_user);
}

void *hfd_alloc(size_t size)
{
    void *p = realloc_fn(NULL, size, realloc_user);

    if (p)
        memset(p, 0, size);
    return p;
}

void hfd_free(void *p)
{
    if (p)
        realloc_fn(p, 0, realloc_user);
}

char *hf__alloc_text(const char *text, size_t len)
{
    char *copy = hfd_alloc(len + 1);

    if (copy)
        memcpy(copy, text, len);
    return copy;
}
