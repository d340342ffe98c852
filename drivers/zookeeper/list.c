/* list.c - HF_OP_LIST: the tree below the root, walked in small flights.
 *
 * A node's children are entries, or nodes of longer keys; the former are read
 * one by one (who it is, and its token, are in the node), the latter are walked
 * into as far as the prefix allows.  Four questions a flight, so that a store
 * with a hundred thousand locks is never kept busy by one who looks.  The
 * answers are of different instants: what went meanwhile is left out.  Rows are
 * kept until all are there, because they are told in the order of key and
 * number.
 *
 * Those of this session alone are taken from our own table and only looked up:
 * what is not in it is not in the store (table.c).  An entry that was granted
 * is granted as long as it is there.
 *
 * Permits are one level further down, below `locks` (they wait) and `leases`
 * (they hold); a permit of Curator's that waits first in line has nodes in
 * both, and is shown twice.
 *
 * A path that no key of ours is written as has no key to be shown under, and is
 * passed over. */
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* ---- What is still to be asked ------------------------------------------ */

static zk_todo *push_todo(zk_todo **list, const char *dir, size_t dir_len,
                          const char *name, size_t len)
{
    zk_todo *todo = hfd_alloc(sizeof *todo + dir_len + 1 + len + 1);

    if (!todo)
        return NULL;
    memcpy(todo->path, dir, dir_len);
    todo->len = todo->dir_len = dir_len;
    if (len) {
        todo->path[dir_len] = '/';
        memcpy(todo->path + dir_len + 1, name, len);
        todo->len += 1 + len;
    }
    todo->next = *list;
    *list = todo;
    return todo;
}

static void pop_todo(zk_todo **list)
{
    zk_todo *todo = *list;

    *list = todo->next;
    hfd_free(todo);
}

static void listing_end(zk_job *job)
{
    zk_listing *list = job->more;

    while (list->dirs)
        pop_todo(&list->dirs);
    while (list->nodes)
        pop_todo(&list->nodes);
    while (list->asked)
        pop_todo(&list->asked);
    zk_rows_free(list);
    hfd_free(list);
    job->more = NULL;
}

/* ---- A queue ------------------------------------------------------------ */

/* Can a key at or below this path begin with the prefix? */
static bool is_on_the_way(zk_listing *list, const hf_op *op, const char *path,
                          size_t len)
{
    const hf_store *store = list->store;
    size_t key_len, n;

    if (!zk_text_reserve(&list->key, len + 2) ||
        !zk_path_read(list->key.data, &key_len, store->root, store->root_len,
                      path, len))
        return false;
    n = key_len < op->text_len ? key_len : op->text_len;
    return n == 0 || memcmp(list->key.data, op->text, n) == 0;
}

/* Is this the path of a key that begins with the prefix? */
static bool is_wanted(zk_listing *list, const hf_op *op, const char *path,
                      size_t len)
{
    const hf_store *store = list->store;
    size_t key_len;

    return zk_path_is_key(store->root, store->root_len, path, len) &&
           is_on_the_way(list, op, path, len) &&
           zk_path_read(list->key.data, &key_len, store->root, store->root_len,
                        path, len) &&
           key_len >= op->text_len;
}

/* The first of all and the first who wants to be alone: who is granted. */
typedef struct heads {
    bool any, alone;
    int32_t first, first_alone;
} heads;

static heads find_heads(const zk_reply *reply)
{
    heads h = {.any = false};
    const char *text;
    size_t at = 0, len;
    zk_name name;

    while (zk_next_name(reply, &at, &text, &len)) {
        if (!zk_name_parse(&name, text, len) || name.kind == ZK_KIND_LEASE)
            continue;
        if (!h.any || zk_seq_order(name.seq, h.first) < 0)
            h.first = name.seq;
        h.any = true;
        if (zk_kind_is_shared(name.kind))
            continue;
        if (!h.alone || zk_seq_order(name.seq, h.first_alone) < 0)
            h.first_alone = name.seq;
        h.alone = true;
    }
    return h;
}

static bool is_granted(const heads *h, const zk_name *name)
{
    if (zk_kind_is_shared(name->kind))
        return !h->alone || zk_seq_order(name->seq, h->first_alone) < 0;
    return name->seq == h->first;
}

/* Is this the inside of a semaphore?  Then how long the path of its key is;
 * *ret_holds: of those who hold. */
static size_t semaphore_len(const zk_listing *list, const zk_todo *dir,
                            bool *ret_holds)
{
    static const char locks[] = "/locks", leases[] = "/leases";
    const hf_store *store = list->store;
    size_t n = sizeof locks - 1;

    *ret_holds = dir->len > n + 1 &&
                 memcmp(dir->path + dir->len - n - 1, leases, n + 1) == 0;
    n += *ret_holds;
    if (dir->len > n &&
        (*ret_holds || memcmp(dir->path + dir->len - n, locks, n) == 0) &&
        zk_path_is_key(store->root, store->root_len, dir->path, dir->len - n))
        return dir->len - n;
    return 0;
}

static bool take_children(zk_listing *list, const hf_op *op, const zk_todo *dir,
                          const zk_reply *reply)
{
    bool holds;
    size_t key_len = semaphore_len(list, dir, &holds);
    bool wanted = is_wanted(list, op, dir->path, key_len ? key_len : dir->len);
    zk_kind other = key_len && holds ? ZK_KIND_LOCK : ZK_KIND_LEASE;
    bool top = dir->len == 0 || (dir->len == 1 && dir->path[0] == '/');
    heads h = find_heads(reply);
    const char *text;
    size_t at = 0, len, dir_len = top ? 0 : dir->len;
    zk_name name;

    while (zk_next_name(reply, &at, &text, &len)) {
        bool entry = zk_name_parse(&name, text, len);
        zk_todo *todo;

        if ((entry && (!wanted || name.kind == other)) ||
            (top && len == 9 && memcmp(text, "zookeeper", 9) == 0))
            continue;
        todo = push_todo(entry ? &list->nodes : &list->dirs, dir->path, dir_len,
                         text, len);
        if (!todo)
            return false;
        todo->name = name;
        todo->granted = entry && (key_len ? holds : is_granted(&h, &name));
        todo->permit = entry && key_len;
        if (todo->permit)
            todo->dir_len = key_len;
        if (!entry && !is_on_the_way(list, op, todo->path, todo->len))
            pop_todo(&list->dirs);
    }
    return true;
}

/* ---- Flights ------------------------------------------------------------ */

static void ask_some(zk_job *job);

static void list_take(zk_job *job, unsigned i, const zk_reply *reply)
{
    zk_listing *list = job->more;
    const zk_todo *todo = list->asked;
    bool good = true;

    while (todo && todo->index != i)
        todo = todo->next;
    if (!todo)
        return;
    if (reply->error == ZK_NO_NODE || reply->error == ZK_NO_AUTH)
        return; /* it went, or is none of our business */
    if (reply->error)
        job->error = reply->error;
    else if (list->reading)
        good = zk_rows_add(list, job->op, todo, reply);
    else
        good = take_children(list, job->op, todo, reply);
    if (!good)
        job->code = HF_ENOMEM;
}

static void list_done(zk_job *job)
{
    zk_listing *list = job->more;

    while (list->asked)
        pop_todo(&list->asked);
    if (job->code)
        zk_job_no_memory(job);
    else if (job->error)
        zk_job_refused(job, job->error, "a node of the listing");
    else
        ask_some(job);
}

static void emit_all(zk_job *job)
{
    zk_rows_emit(job->more, job->op);
    zk_job_ok(job);
}

/* Asked and not answered: they are due again. */
static void list_redo(zk_job *job)
{
    zk_listing *list = job->more;

    while (list->asked) {
        zk_todo *todo = list->asked;
        zk_todo **back = list->reading ? &list->nodes : &list->dirs;

        list->asked = todo->next;
        todo->next = *back;
        *back = todo;
    }
    ask_some(job);
}

static void ask_some(zk_job *job)
{
    zk_listing *list = job->more;
    zk_todo **from = list->nodes ? &list->nodes : &list->dirs;
    unsigned n = 0;

    list->reading = from == &list->nodes;
    while (*from && n < ZK_MOST_REQUESTS) {
        zk_todo *todo = *from;
        bool top = todo->len == 0;

        *from = todo->next;
        todo->next = list->asked;
        todo->index = n;
        list->asked = todo;
        zk_job_ask(job, n++, list->reading ? ZK_GET_DATA : ZK_GET_CHILDREN,
                   top ? "/" : todo->path, top ? 1 : todo->len);
    }
    if (n == 0)
        emit_all(job);
    else
        zk_job_send(job, n);
}

/* ---- Beginning ---------------------------------------------------------- */

/* Of this session: what the table has.  false: no memory. */
static bool push_own(zk_job *job)
{
    hf_store *store = job->store;
    zk_listing *list = job->more;
    bool good = true;

    zk_store_lock(store);
    for (size_t i = 0; i < ZK_BUCKETS && good; i++) {
        for (zk_entry *e = store->entries[i]; e && good; e = e->next) {
            const zk_text *node = zk_entry_node(e);
            size_t dir = e->holds ? e->lease_dir : e->dir_len;
            const char *base = node->data + dir + 1;
            zk_todo *todo;

            if (!e->created || e->gone || e->tomb ||
                !is_wanted(list, job->op, e->path.data, e->top_len))
                continue;
            todo = push_todo(&list->nodes, node->data, dir, base,
                             node->len - dir - 1);
            good = todo && zk_name_parse(&todo->name, base, strlen(base));
            if (!todo)
                continue;
            todo->granted = e->granted;
            todo->permit = e->mode == HF_PERMIT;
            todo->dir_len = e->top_len;
        }
    }
    zk_store_unlock(store);
    return good;
}

void zk_list(hf_store *store, hf_op *op)
{
    zk_job *job = zk_job_new(store, op);
    zk_listing *list;
    bool good, mine;

    if (!job)
        return;
    list = hfd_alloc(sizeof *list);
    if (!list) {
        zk_job_no_memory(job);
        return;
    }
    list->store = store;
    job->more = list;
    job->end = listing_end;
    job->take = list_take;
    job->done = list_done;
    job->redo = list_redo;
    zk_store_lock(store);
    mine = zk_session_is(store, &op->sid);
    list->session = mine ? store->session : 0;
    job->call.session = op->only_mine && mine ? store->session : 0;
    zk_store_unlock(store);
    if (op->only_mine)
        good = !mine || push_own(job);
    else
        good = push_todo(&list->dirs, store->root, store->root_len, "", 0);
    if (!good)
        zk_job_no_memory(job);
    else
        ask_some(job);
}
