/* fencing.c - the last line of defence: what the lock protects checks tokens.
 *
 * A process can be stopped at any instant, lose its lease while it sleeps,
 * and wake up in the middle of a write.  No lock can prevent that; the thing
 * that is written to can.  It remembers the largest token it has seen and
 * refuses smaller ones.
 *
 * Here the first hold has a fixed lease of a moment, and its owner is slow. */
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define KEY "/report"

/* What is protected: any storage that can compare and write in one step. */
struct record {
    uint64_t token;
    const char *text;
};

static bool write_record(struct record *r, uint64_t token, const char *text)
{
    bool fresh = token >= r->token;

    if (fresh)
        *r = (struct record){token, text};
    printf("write '%s' with token %" PRIu64 ": %s\n", text, token,
           fresh ? "accepted" : "refused");
    return fresh;
}

int main(void)
{
    hf_lock_options brief = {HF_LOCK_OPTIONS, .wait_ms = 5000, .lease_ms = 300,
                             .owner = 1};
    hf_lock_options other = {HF_LOCK_OPTIONS, .wait_ms = 5000, .owner = 2};
    struct record record = {0, ""};
    hf_hold *slow, *next;
    uint64_t token;
    hf_session *s;
    hf_error err;

    if (hf_open(&s, NULL, NULL, &err) != 0 ||
        hf_lock(s, KEY, &brief, &slow, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    token = hf_hold_token(slow);
    usleep(400 * 1000); /* longer than the lease */
    if (hf_lock(s, KEY, &other, &next, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    write_record(&record, hf_hold_token(next), "from the next holder");
    write_record(&record, token, "from the slow holder");

    if (hf_release(slow, &err) != 0)
        printf("the slow holder learns: %s\n", hf_strerror(err.code));
    hf_release(next, NULL);
    hf_close(s);
    return 0;
}
