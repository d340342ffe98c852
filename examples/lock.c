/* lock.c - one job at a time, on every machine that shares the store. */
#include <holdfast/holdfast.h>
#include <stdio.h>

int main(void)
{
    hf_session *s;
    hf_hold *hold;
    hf_error err;

    if (hf_open(&s, NULL, NULL, &err) != 0) { /* NULL: $HOLDFAST_URL */
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (hf_lock(s, "/invoice/pay/4587", NULL, &hold, &err) == 0) {
        printf("paying, token %llu\n", (unsigned long long)hf_hold_token(hold));
        hf_release(hold, &err);
    }
    hf_close(s);
}
