/* shared.c - many may read at once, whoever writes is alone.
 *
 * Each request here has an owner number of its own, as a server would give
 * its tasks; without one, the owner is the thread, and a thread that holds a
 * key may take it again. */
#include <holdfast/holdfast.h>
#include <stdio.h>

#define KEY "/catalogue"

int main(void)
{
    hf_lock_options first = {HF_LOCK_OPTIONS, .wait_ms = 1000, .owner = 1};
    hf_lock_options second = {HF_LOCK_OPTIONS, .wait_ms = 1000, .owner = 2};
    hf_lock_options writer = {HF_LOCK_OPTIONS, .owner = 3};
    hf_hold *a, *b, *w;
    hf_session *s;
    hf_error err;

    if (hf_open(&s, NULL, NULL, &err) != 0 ||
        hf_lock_shared(s, KEY, &first, &a, &err) != 0 ||
        hf_lock_shared(s, KEY, &second, &b, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    puts("two readers at once");

    /* A busy lock is an answer, not a failure. */
    if (hf_try_lock(s, KEY, &writer, &w, &err) == HF_EBUSY)
        puts("a writer has to wait");

    hf_release(a, NULL);
    hf_release(b, NULL);
    if (hf_try_lock(s, KEY, &writer, &w, &err) == 0) {
        puts("the writer is alone");
        hf_release(w, NULL);
    }
    hf_close(s);
    return 0;
}
