/* process.c - what belongs to the process: fork, threads, exit.
 *
 * fork: a page that the kernel wipes in the child (MADV_WIPEONFORK) holds the
 * mark of this process.  Every entry point compares it with the mark of the
 * session, so a child is recognised without a system call, also after a bare
 * clone(); nothing runs at the fork itself, so nothing can hang there.  The
 * child's first hf_open draws a new mark and starts with empty tables.
 *
 * threads: an owner is a serial number, never a pthread_t, which is reused.  A
 * thread that ends while it holds locks leaves them: nobody else may release
 * them.
 *
 * pthread_cancel: off inside the API.  Who were cancelled there would keep a
 * mutex, and every thread of the session would wait for it for ever.
 *
 * exit: what is still open leaves within 200 ms, so that others need not wait
 * for the lease.  _exit and a crash leave to the lease, or to the kernel. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/internal.h"
#include "core/registry.h"

typedef struct process_page {
    _Atomic uint64_t mark;
    atomic_flag busy; /* in the page, so that no child inherits it taken */
} process_page;

static process_page fallback_page;
static process_page *page = &fallback_page;
static uint64_t last_mark;

static pthread_mutex_t open_mu = PTHREAD_MUTEX_INITIALIZER;
static hf__node open_sessions;

static _Thread_local uint64_t thread_serial;
static _Thread_local int thread_holds;
static _Thread_local unsigned api_depth;
static _Thread_local int cancel_state; /* the caller's */
static _Atomic uint64_t next_serial = 1;
static pthread_key_t exit_key;
static bool exit_hooked;

static void wipe_page(void)
{
    atomic_store(&fallback_page.mark, 0);
    atomic_flag_clear(&fallback_page.busy);
}

/* Leaves what the ending thread still holds. */
static void leave_thread(void *serial)
{
    uint64_t owner = (uint64_t)(uintptr_t)serial;

    if (hf__process_mark() == 0)
        return; /* a forked child: they are the parent's */
    pthread_mutex_lock(&open_mu);
    for (hf__node *node = open_sessions.next; node != &open_sessions;
         node = node->next) {
        hf__session *s = HF_CONTAINER(node, hf__session, open_node);

        if (!hf__session_forked(s))
            hf__session_abandon_owner(s, owner);
    }
    pthread_mutex_unlock(&open_mu);
}

static void leave_all(void)
{
    if (hf__process_mark() == 0)
        return;
    pthread_mutex_lock(&open_mu);
    for (hf__node *node = open_sessions.next; node != &open_sessions;
         node = node->next) {
        hf__session *s = HF_CONTAINER(node, hf__session, open_node);

        if (!hf__session_forked(s))
            hf__session_goodbye(s, HF_MS(200));
    }
    pthread_mutex_unlock(&open_mu);
}

__attribute__((constructor)) static void make_page(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p != MAP_FAILED && madvise(p, 4096, MADV_WIPEONFORK) == 0)
        page = p;
    else
        pthread_atfork(NULL, NULL, wipe_page);
    pthread_key_create(&exit_key, leave_thread);
}

uint64_t hf__process_mark(void)
{
    return atomic_load_explicit(&page->mark, memory_order_acquire);
}

void hf__process_begin(void)
{
    if (hf__process_mark() != 0)
        return;
    while (atomic_flag_test_and_set(&page->busy))
        ;
    if (hf__process_mark() == 0) {
        pthread_mutex_init(&open_mu, NULL);
        hf__list_init(&open_sessions);
        if (last_mark != 0)
            hf__registry_forked();
        hf__handle_reset(++last_mark);
        if (!exit_hooked)
            exit_hooked = atexit(leave_all) == 0;
        atomic_store_explicit(&page->mark, last_mark, memory_order_release);
    }
    atomic_flag_clear(&page->busy);
}

bool hf__session_forked(const hf__session *s)
{
    return s->fork_mark != hf__process_mark();
}

uint64_t hf__thread_serial(void)
{
    if (thread_serial == 0)
        thread_serial = atomic_fetch_add(&next_serial, 1) | UINT64_C(1) << 63;
    return thread_serial;
}

void hf__api_enter(void)
{
    if (api_depth++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
}

int hf__api_leave(int code)
{
    if (--api_depth == 0)
        pthread_setcancelstate(cancel_state, &(int){0});
    return code;
}

uint64_t hf_owner_self(void)
{
    return hf__thread_serial();
}

void hf__thread_count_hold(int by)
{
    thread_holds += by;
    if (by > 0 && thread_holds == 1)
        pthread_setspecific(exit_key, (void *)(uintptr_t)hf__thread_serial());
    else if (thread_holds == 0)
        pthread_setspecific(exit_key, NULL);
}

void hf__process_add(hf__session *s)
{
    pthread_mutex_lock(&open_mu);
    hf__list_append(&open_sessions, &s->open_node);
    pthread_mutex_unlock(&open_mu);
}

void hf__process_remove(hf__session *s)
{
    pthread_mutex_lock(&open_mu);
    hf__list_remove(&s->open_node);
    pthread_mutex_unlock(&open_mu);
}
