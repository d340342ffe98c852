/* scope.c - a lock as a block: the body runs only while it is held.
 *
 * hf_with_lock makes the key like printf, takes the lock, runs the body once
 * and gives the lock back on every way out: the end, break, return, goto. */
#include <holdfast/holdfast.h>
#include <stdio.h>

static int pay(hf_session *s, int invoice, int amount)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = 5000};
    hf_error err;

    hf_with_lock(s, &opt, &err, "/invoice/pay/%d", invoice) {
        if (amount == 0)
            return 0; /* released here, too */
        printf("invoice %d: paid %d, token %llu\n", invoice, amount,
               (unsigned long long)hf_hold_token(hf_held));
    }
    /* 0, or why the body did not run, or how the hold was lost in it. */
    if (err.code != 0)
        fprintf(stderr, "invoice %d: %s\n", invoice, err.text);
    return err.code;
}

int main(void)
{
    hf_session *s;
    hf_error err;
    int failed;

    if (hf_open(&s, NULL, NULL, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    failed = pay(s, 4587, 0) != 0 || pay(s, 4587, 120) != 0;
    hf_close(s);
    return failed;
}
