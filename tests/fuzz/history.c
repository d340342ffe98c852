/* history.c - any bytes as the diaries of a campaign.
 *
 * Promises: whatever the files hold, the checker ends, reads nothing outside
 * its arrays, and what it convicts it can draw.  Half of the inputs get their
 * sums put right, so that the rules and not only the sums are reached. */
#include "fuzz.h"

#include "../campaign/case.h"

enum { RECORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static camp_case c;
    static FILE *nowhere;
    camp_record records[RECORDS];
    size_t n = size / sizeof *records;

    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    if (n > RECORDS || !nowhere)
        return 0;
    if (size % 2)
        PROMISE(camp_add(&c, data, size));
    memcpy(records, data, n * sizeof *records);
    for (size_t i = 0; i < n; i++) {
        camp_record *r = &records[i];

        r->kind %= CAMP_KINDS;
        r->key %= CAMP_KEYS;
        r->mode %= 3;
        r->life %= 4;
        r->task %= 8;
        r->at &= INT64_C(0xffffffffff);
        r->called = r->at - (r->called & 0xffffff);
        r->until &= INT64_C(0xffffffffff);
        r->sum = camp_sum(r);
    }
    PROMISE(camp_add(&c, records, n * sizeof *records));
    PROMISE(camp_build(&c));
    camp_judge(&c);
    for (size_t i = 0; i < c.verdict_count && i < CAMP_VERDICTS; i++)
        camp_print(nowhere, &c, &c.verdicts[i]);
    camp_free(&c);
    return 0;
}
