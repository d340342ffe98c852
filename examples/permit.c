/* permit.c - at most N at once: a lock with places.
 *
 * Here three downloads want one of two places.  Everybody who uses the key
 * names the same number of places. */
#include <holdfast/holdfast.h>
#include <stdio.h>

#define KEY "/mirror/downloads"
#define PLACES 2

int main(void)
{
    hf_lock_options now = {HF_LOCK_OPTIONS, .wait_ms = 0};
    hf_hold *place[PLACES], *third;
    hf_session *s;
    hf_error err;

    if (hf_open(&s, NULL, NULL, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 0; i < PLACES; i++) {
        if (hf_lock_permit(s, KEY, PLACES, &now, &place[i], &err) != 0) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        printf("download %d has a place\n", i + 1);
    }
    if (hf_lock_permit(s, KEY, PLACES, &now, &third, &err) == HF_EBUSY)
        puts("download 3 has to wait");

    hf_release(place[0], NULL);
    if (hf_lock_permit(s, KEY, PLACES, &now, &third, &err) == 0)
        puts("download 3 has a place");
    hf_close(s); /* gives back what is still held */
    return 0;
}
