/* list_copy.c - rows of a listing, copied so that they outlive the mutex.
 *
 * The model's rows point into its own memory, and the contract forbids calling
 * the core with a lock held; so a listing is taken whole, then told.  One block
 * per row: the row, then key, name, host and value behind it. */
#include "list_copy.h"

#include <string.h>

struct mem_copy {
    mem_copy *next;
    hf_row row;
    char bytes[];
};

static char *put_bytes(char **at, const void *bytes, size_t len)
{
    char *out = *at;

    if (len > 0)
        memcpy(out, bytes, len);
    out[len] = '\0';
    *at += len + 1;
    return out;
}

int hf__mem_copy_row(const hf_row *row, void *user)
{
    mem_copies *copies = user;
    const hf_entry_info *info = &row->info;
    size_t name = strlen(info->name), host = strlen(info->host);
    mem_copy *copy = hfd_alloc(sizeof *copy + info->key_len + name + host +
                               info->value_len + 4);
    char *at;

    if (!copy) {
        copies->failed = true;
        return 1;
    }
    copy->row = *row;
    at = copy->bytes;
    copy->row.info.key = put_bytes(&at, info->key, info->key_len);
    copy->row.info.name = put_bytes(&at, info->name, name);
    copy->row.info.host = put_bytes(&at, info->host, host);
    copy->row.info.value = put_bytes(&at, info->value, info->value_len);
    if (!copies->end)
        copies->end = &copies->rows;
    *copies->end = copy;
    copies->end = &copy->next;
    return 0;
}

void hf__mem_emit_copies(const mem_copies *copies,
                         int (*emit)(const hf_row *row, void *user), void *user)
{
    for (const mem_copy *copy = copies->rows; copy; copy = copy->next) {
        if (emit(&copy->row, user) != 0)
            return;
    }
}

void hf__mem_free_copies(mem_copies *copies)
{
    while (copies->rows) {
        mem_copy *copy = copies->rows;

        copies->rows = copy->next;
        hfd_free(copy);
    }
}
