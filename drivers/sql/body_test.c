/* body_test.c - a queue's text and its entries are one and the same: whatever
 * is written is read again, and what nobody has written is refused.  Also the
 * rows that bring such texts. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "body.h"
#include "rows.h"

#define RID_A "AAAAAAAAAAAAAAAAAAAAAA"
#define RID_B "-_89abcdefghijklmnopqA"
#define SID_A "BBBBBBBBBBBBBBBBBBBBBA"

static void ids(void)
{
    hf_id id, back;
    char text[SQL_ID_LEN + 1];

    for (unsigned round = 0; round < 1000; round++) {
        for (size_t i = 0; i < sizeof id.bytes; i++)
            id.bytes[i] = (uint8_t)(round * 151 + i * 37 + (round << i) / 7);
        sql_id_text(&id, text);
        EXPECT_EQ(strlen(text), SQL_ID_LEN);
        EXPECT(sql_id_from(text, SQL_ID_LEN, &back));
        EXPECT(memcmp(&id, &back, sizeof id) == 0);
    }
    memset(&id, 0xff, sizeof id);
    sql_id_text(&id, text);
    EXPECT_STR(text, "_____________________w");
    memset(&id, 0, sizeof id);
    id.bytes[0] = 0xf8;
    sql_id_text(&id, text);
    EXPECT_STR(text, "-AAAAAAAAAAAAAAAAAAAAA");
}

/* One id has one text. */
static void ids_of_nobody(void)
{
    hf_id id;

    EXPECT(!sql_id_from("_____________________x", 22, &id));
    EXPECT(!sql_id_from("_____________________w", 21, &id));
    EXPECT(!sql_id_from("_____________________ww", 23, &id));
    EXPECT(!sql_id_from("__________+__________w", 22, &id));
    EXPECT(!sql_id_from("__________/__________w", 22, &id));
    EXPECT(!sql_id_from("______________________", 22, &id));
    EXPECT(!sql_id_from("", 0, &id));
}

static sql_entry sample(void)
{
    sql_entry entry = {.num = 17,
                       .mode = HF_PERMIT,
                       .run = 3,
                       .places = 5,
                       .lease_ms = 1000,
                       .exp_us = 2000,
                       .brk_us = 3000,
                       .born_us = 4000};

    EXPECT(sql_id_from(RID_B, 22, &entry.rid));
    EXPECT(sql_id_from(SID_A, 22, &entry.sid));
    return entry;
}

static void texts(void)
{
    sql_entry entry = sample();
    char before[SQL_ENTRY_MAX], behind[SQL_ENTRY_MAX], text[SQL_ENTRY_MAX];

    sql_entry_before(&entry, before);
    EXPECT_STR(before, "|P");
    sql_entry_behind(&entry, behind);
    EXPECT_STR(behind, "." RID_B "." SID_A ".3.5.1000.2000.3000.4000");
    sql_entry_text(&entry, text);
    EXPECT_STR(text, "|P17." RID_B "." SID_A ".3.5.1000.2000.3000.4000");
    sql_entry_around(&entry, SQL_EXP, before, behind);
    EXPECT_STR(before, "|P17." RID_B "." SID_A ".3.5.1000.");
    EXPECT_STR(behind, ".3000.4000");
    sql_entry_around(&entry, SQL_BRK, before, behind);
    EXPECT_STR(before, "|P17." RID_B "." SID_A ".3.5.1000.2000.");
    EXPECT_STR(behind, ".4000");
    entry.closed = true;
    entry.mode = HF_EXCLUSIVE;
    sql_entry_text(&entry, text);
    EXPECT_STR(text, "|X17." RID_B ".-.3.5.1000.2000.3000.4000");
}

/* The longest entry there can be has room, and is read again. */
static void longest(void)
{
    sql_entry entry = sample(), back;
    char text[SQL_ENTRY_MAX];
    const char *at = text;

    entry.num = INT64_MAX - UINT32_MAX;
    entry.run = entry.places = UINT32_MAX;
    entry.lease_ms = INT64_C(1) << 41;
    entry.exp_us = entry.brk_us = entry.born_us = SQL_INSTANT_MAX;
    sql_entry_text(&entry, text);
    EXPECT(strlen(text) < SQL_ENTRY_MAX - 1);
    EXPECT(sql_body_next(&at, &back));
    EXPECT(*at == '\0');
    EXPECT(back.num == entry.num);
    EXPECT_EQ(back.run, UINT32_MAX);
    EXPECT_EQ(back.places, UINT32_MAX);
    EXPECT(back.born_us == SQL_INSTANT_MAX && back.exp_us == SQL_INSTANT_MAX);
}

static void walked(void)
{
    static const char body[] =
        "|X1." RID_A "." SID_A ".1.0.0.0.0.9|S2." RID_B ".-.4.0.0.7.0.0"
        "|P6." RID_A "." SID_A ".1.3.10.11.12.13";
    const char *at = body;
    sql_entry entry, *all;

    EXPECT(sql_body_next(&at, &entry));
    EXPECT_EQ(entry.num, 1);
    EXPECT_EQ(entry.mode, HF_EXCLUSIVE);
    EXPECT(!entry.closed && entry.text == body);
    EXPECT(strncmp(entry.text + entry.len, "|S2", 3) == 0);
    EXPECT(sql_body_next(&at, &entry));
    EXPECT(entry.closed && entry.mode == HF_SHARED);
    EXPECT_EQ(entry.run, 4);
    EXPECT_EQ(entry.exp_us, 7);
    EXPECT(sql_body_next(&at, &entry));
    EXPECT_EQ(entry.places, 3);
    EXPECT_EQ(entry.lease_ms, 10);
    EXPECT_EQ(entry.born_us, 13);
    EXPECT(!sql_body_next(&at, &entry) && *at == '\0');

    EXPECT_EQ(sql_body_read(body, true, &all), 3);
    EXPECT_EQ(all[2].brk_us, 12);
    hfd_free(all);
    EXPECT_EQ(sql_body_read("", true, &all), 0);
    hfd_free(all);
}

/* Wherever it was cut: what was whole before comes, and nothing else. */
static void cut(void)
{
    static const char body[] =
        "|X1." RID_A "." SID_A ".1.0.0.0.0.91|S2." RID_B "." SID_A
        ".4.0.0.0.0.0|S6." RID_A ".-.1.0.0.5.0.0";
    char copy[sizeof body];
    sql_entry *all;

    for (size_t len = 1; len < sizeof body; len++) {
        ssize_t n, bars = 0;

        memcpy(copy, body, len);
        copy[len] = '\0';
        for (size_t i = 0; i < len; i++)
            bars += body[i] == '|';
        n = sql_body_read(copy, false, &all);
        EXPECT_EQ(n, bars - 1);
        hfd_free(all);
    }
    EXPECT_EQ(sql_body_read("", false, &all), 0);
    hfd_free(all);
    EXPECT_EQ(sql_body_read("x", false, &all), -1);
}

static void not_ours(void)
{
    static const char *const wrong[] = {
        "x",
        "|",
        "|X",
        "|X1",
        "|X1.",
        "|Y1." RID_A "." SID_A ".1.0.0.0.0.0",
        "|x1." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X0." RID_A "." SID_A ".1.0.0.0.0.0", /* numbers begin with 1 */
        "|X01." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X-1." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X+1." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X 1." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X9223372036854775808." RID_A "." SID_A ".1.0.0.0.0.0",
        "|X9223372036854775807." RID_A "." SID_A ".2.0.0.0.0.0",
        "|X1.." SID_A ".1.0.0.0.0.0",
        "|X1.-." SID_A ".1.0.0.0.0.0",
        "|X1." RID_A "A." SID_A ".1.0.0.0.0.0",
        "|X1." RID_A ".--.1.0.0.0.0.0",
        "|X1." RID_A ".-.1.0.0.0.0.0", /* closed for ever */
        "|X1." RID_A "." SID_A ".0.0.0.0.0.0",
        "|X1." RID_A "." SID_A ".4294967296.0.0.0.0.0",
        "|X1." RID_A "." SID_A ".1.4294967296.0.0.0.0",
        "|P1." RID_A "." SID_A ".1.0.0.0.0.0", /* a permit of none */
        /* Times that nobody can count with. */
        "|X1." RID_A "." SID_A ".1.0.2199023255553.0.0.0",
        "|X1." RID_A "." SID_A ".1.0.0.144115188075855873.0.0",
        "|X1." RID_A "." SID_A ".1.0.0.0.9223372036854775807.0",
        "|X1." RID_A "." SID_A ".1.0.0.0.0",
        "|X1." RID_A "." SID_A ".1.0.0.0.0.",
        "|X1." RID_A "." SID_A ".1.0.0.0.0.0.0",
        "|X1." RID_A "." SID_A ".1.0.0.0.0.0 ",
        "|X1." RID_A "." SID_A ".1.0.0.0.0.0|",
        "|X1." RID_A "." SID_A ".1.0.0.0.0.9223372036854775808",
        " |X1." RID_A "." SID_A ".1.0.0.0.0.0",
        /* In the wrong order, or in another's run. */
        "|X2." RID_A "." SID_A ".1.0.0.0.0.0|X1." RID_B "." SID_A
        ".1.0.0.0.0.0",
        "|X2." RID_A "." SID_A ".1.0.0.0.0.0|X2." RID_B "." SID_A
        ".1.0.0.0.0.0",
        "|X2." RID_A "." SID_A ".3.0.0.0.0.0|X4." RID_B "." SID_A
        ".1.0.0.0.0.0",
    };
    sql_entry *all = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        /* A copy that ends where it ends, for the sanitizers. */
        char *copy = strdup(wrong[i]);

        EXPECT(copy != NULL);
        if (sql_body_read(copy, true, &all) != -1)
            FAIL_TEST("taken for ours: %s", wrong[i]);
        EXPECT(all == NULL);
        free(copy);
    }
}

static void rows(void)
{
    sql_rows r = {0};

    EXPECT(sql_cell(&r, 0, 0) == NULL);
    for (int round = 0; round < 3; round++) {
        sql_rows_reset(&r);
        EXPECT_EQ(r.affected, -1);
        for (int i = 0; i < 200; i++) {
            char text[32];
            int n = snprintf(text, sizeof text, "%d", i * 1000 - 5000);

            sql_rows_add(&r, text, (size_t)n);
            sql_rows_add_null(&r);
            sql_rows_add(&r, "abcdefghijklmnopqrstuvwxyz", (size_t)(i % 27));
            sql_rows_end_row(&r);
        }
        EXPECT_EQ(r.rows, 200);
        EXPECT_EQ(r.cols, 3);
        EXPECT(!r.failed);
        EXPECT_EQ(sql_number(&r, 4, 0, 7), -1000);
        EXPECT_EQ(sql_number(&r, 4, 1, 7), 7);
        EXPECT_EQ(sql_number(&r, 4, 2, 7), 7);
        EXPECT_EQ(sql_number(&r, 200, 0, 7), 7);
        EXPECT(sql_cell(&r, 10, 1) == NULL);
        EXPECT_STR(sql_cell(&r, 3, 2), "abc");
        EXPECT_STR(sql_cell(&r, 27, 2), "");
        EXPECT(sql_cell(&r, 0, 3) == NULL && sql_cell(&r, 200, 0) == NULL);
    }
    sql_rows_done(&r);
}

static void numbers(void)
{
    static const char *const none[] = {"",
                                       "-",
                                       "1x",
                                       "x",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "99999999999999999999"};
    sql_rows r = {0};

    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        sql_rows_add(&r, none[i], strlen(none[i]));
    sql_rows_add(&r, "9223372036854775807", 19);
    sql_rows_add(&r, "-9223372036854775807", 20);
    sql_rows_end_row(&r);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        EXPECT_EQ(sql_number(&r, 0, i, -77), -77);
    EXPECT_EQ(sql_number(&r, 0, sizeof none / sizeof *none, 0), INT64_MAX);
    EXPECT_EQ(sql_number(&r, 0, 1 + sizeof none / sizeof *none, 0), -INT64_MAX);
    /* As times: what can be counted with. */
    EXPECT_EQ(sql_span(&r, 0, 0, 5), 5);
    EXPECT_EQ(sql_span(&r, 0, sizeof none / sizeof *none, 0), SQL_SPAN_MAX);
    EXPECT_EQ(sql_span(&r, 0, 1 + sizeof none / sizeof *none, 0),
              -SQL_SPAN_MAX);
    EXPECT_EQ(sql_instant(&r, 0, 0), 0);
    EXPECT_EQ(sql_instant(&r, 0, sizeof none / sizeof *none), 0);
    EXPECT_EQ(sql_instant(&r, 0, 1 + sizeof none / sizeof *none), 0);
    sql_rows_done(&r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(ids),      TEST(ids_of_nobody), TEST(texts),
        TEST(longest),  TEST(walked),        TEST(cut),
        TEST(not_ours), TEST(rows),          TEST(numbers)};

    return run_tests(argc, argv, "body", cases, sizeof cases / sizeof *cases);
}
