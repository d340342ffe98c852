/* probe_test.c - does doctor see what is wrong with a database?
 *
 * The judge alone, with facts that no database of ours could show.  What a real
 * server answers is tested by each driver. */
#include "probe.h"

#include <stdio.h>

#include "harness/expect.h"
#include "harness/runner.h"

enum { ROOM = 24 };

typedef struct findings {
    size_t count;
    struct {
        hf_level level;
        char name[32], text[700];
    } all[ROOM];
} findings;

static void keep_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    findings *f = user;

    EXPECT(text[0] && !strchr(text, '\n'));
    EXPECT(f->count < ROOM);
    f->all[f->count].level = level;
    snprintf(f->all[f->count].name, sizeof f->all[0].name, "%s", name);
    snprintf(f->all[f->count].text, sizeof f->all[0].text, "%s", text);
    f->count++;
}

/* There is one finding of this name; it has this level and says `part`. */
static void expect_finding(const sql_facts *facts, const char *name,
                           hf_level level, const char *part)
{
    findings f = {.count = 0};
    size_t found = 0;

    sql_judge_facts(facts, keep_finding, &f);
    for (size_t i = 0; i < f.count; i++) {
        if (strcmp(f.all[i].name, name) != 0)
            continue;
        found++;
        if (f.all[i].level != level)
            FAIL_TEST("%s has level %d, expected %d: %s", name,
                      (int)f.all[i].level, (int)level, f.all[i].text);
        EXPECT_HAS(f.all[i].text, part);
    }
    if (found != 1)
        FAIL_TEST("%zu findings named %s, expected 1", found, name);
}

static sql_facts healthy(void)
{
    sql_facts f;

    sql_facts_init(&f);
    f.database = "postgres";
    f.native = f.has_clock = f.purges = f.meta_there = f.can_listen = true;
    f.format = 1;
    f.sessions = 3;
    f.queues = 40;
    f.values = 0;
    f.lease = HF_MS(30000);
    f.connections = 4;
    f.samples = 5;
    f.trip_best = HF_MS(1) / 10;
    f.trip_worst = HF_MS(1);
    f.max_lease_us = 60000000;
    return f;
}

static void nothing_is_wrong(void)
{
    findings found = {.count = 0};
    sql_facts f = healthy();

    sql_judge_facts(&f, keep_finding, &found);
    EXPECT(found.count >= 7);
    for (size_t i = 0; i < found.count; i++)
        EXPECT_EQ(found.all[i].level, HF_FINE);
    expect_finding(&f, "tables", HF_FINE, "format 1");
    expect_finding(&f, "connections", HF_FINE, "4 of our own, and one");
}

static void tables_and_rights(void)
{
    sql_facts f = healthy();

    f.meta_there = false;
    expect_finding(&f, "tables", HF_FAIL, "no row");
    f = healthy();
    snprintf(f.missing, sizeof f.missing, "delete from hf_queue");
    snprintf(f.refusal, sizeof f.refusal, "permission denied");
    expect_finding(&f, "rights", HF_FAIL, "may not delete from hf_queue");
    expect_finding(&f, "rights", HF_FAIL, "holdfast ddl postgres");
}

static void many_rows(void)
{
    sql_facts f = healthy();

    f.queues = 2000000;
    expect_finding(&f, "rows", HF_WARN, "a hundred at a time");
    f.purges = false;
    expect_finding(&f, "rows", HF_WARN, "never removed");
    f = healthy();
    f.sessions = 20000;
    expect_finding(&f, "rows", HF_WARN, "open one");
}

static void clocks_and_trips(void)
{
    sql_facts f = healthy();

    f.offset_us = -3000000;
    expect_finding(&f, "clock", HF_WARN, "3.0 s behind");
    expect_finding(&f, "clock", HF_WARN, "clock=observer");
    f.offset_us = 3000000;
    expect_finding(&f, "clock", HF_WARN, "ahead of");
    f.observer = true;
    expect_finding(&f, "clock", HF_FINE, "no clock is compared");
    f.trip_worst = HF_MS(3001);
    expect_finding(&f, "roundtrip", HF_WARN, "tenth of the lease");
}

static void quarantine(void)
{
    sql_facts f = healthy();

    expect_finding(&f, "strict", HF_FINE, "off");
    f.meta_strict = f.epoch_known = f.epoch_same = true;
    expect_finding(&f, "strict", HF_FINE, "60.0 s");
    f.quarantine_us = 12000000;
    expect_finding(&f, "strict", HF_WARN, "another 12.0 s");
    f.epoch_same = false;
    expect_finding(&f, "strict", HF_WARN, "another server");
}

static void who_wakes(void)
{
    sql_facts f = healthy();

    expect_finding(&f, "waking", HF_FINE, "wakes the next");
    f.deaf = true;
    snprintf(f.deaf_why, sizeof f.deaf_why, "a pooler is in the way");
    expect_finding(&f, "waking", HF_WARN, "a pooler is in the way");
    f.can_listen = false;
    expect_finding(&f, "waking", HF_FINE, "20 to 500 ms");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(nothing_is_wrong), TEST(tables_and_rights), TEST(many_rows),
        TEST(clocks_and_trips), TEST(quarantine),        TEST(who_wakes),
    };

    return run_tests(argc, argv, "sql_probe", cases,
                     sizeof cases / sizeof *cases);
}
