/* pb_test.c - messages written and read back, and bytes that are none.
 *
 * The bytes that are expected were taken from protobuf's own description of
 * the format, not from our writer. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "pb.h"

static void expect_bytes(const hf__buf *out, const char *want, size_t len)
{
    EXPECT(!out->failed);
    EXPECT_EQ(hf__buf_len(out), len);
    EXPECT(memcmp(out->data + out->start, want, len) == 0);
}

static void numbers(void)
{
    hf__buf out = {0};

    pb_int(&out, 1, 150);
    pb_int(&out, 2, 0); /* left out */
    pb_int(&out, 16, 1);
    pb_int(&out, 3, -1);
    expect_bytes(&out,
                 "\x08\x96\x01\x80\x01\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff"
                 "\xff\x01",
                 17);
    hf__buf_done(&out);
}

static void texts(void)
{
    hf__buf out = {0};

    pb_bytes(&out, 2, "testing", 7);
    pb_bytes(&out, 3, "", 0); /* left out */
    expect_bytes(&out, "\x12\x07testing", 9);
    hf__buf_done(&out);
}

/* A message inside a message, short, long and empty, with something in front
 * that was eaten already. */
static void inside(void)
{
    static const size_t lens[] = {0,   1,     125,   126,  127,
                                  128, 16383, 16384, 50000};
    static char text[50000];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        hf__buf out = {0};
        size_t outer, inner;
        pb_reader a, b, c;
        pb_field f;

        hf__buf_add(&out, "eaten", 5);
        pb_int(&out, 7, 7);
        hf__buf_eat(&out, 5);
        outer = pb_begin(&out, 1);
        inner = pb_begin(&out, 2);
        pb_bytes(&out, 3, text, lens[i]);
        pb_end(&out, inner);
        pb_int(&out, 4, 5);
        pb_end(&out, outer);
        pb_int(&out, 6, 9);
        EXPECT(!out.failed);
        a = pb_read(out.data + out.start, hf__buf_len(&out));
        EXPECT(pb_next(&a, &f) && f.number == 7 && f.value == 7 && !f.bytes);
        EXPECT(pb_next(&a, &f) && f.number == 1 && f.bytes);
        b = pb_read(f.bytes, f.len);
        EXPECT(pb_next(&b, &f) && f.number == 2);
        c = pb_read(f.bytes, f.len);
        EXPECT_EQ(pb_next(&c, &f), lens[i] > 0);
        EXPECT_EQ(f.len, lens[i]);
        EXPECT(f.len == 0 || memcmp(f.bytes, text, f.len) == 0);
        EXPECT(!pb_next(&c, &f) && !c.bad);
        EXPECT(pb_next(&b, &f) && f.number == 4 && f.value == 5);
        EXPECT(!pb_next(&b, &f) && !b.bad);
        EXPECT(pb_next(&a, &f) && f.number == 6 && f.value == 9);
        EXPECT(!pb_next(&a, &f) && !a.bad);
        hf__buf_done(&out);
    }
}

static void fixed(void)
{
    pb_reader r = pb_read("\x0d\x01\x02\x03\x04\x11\x01\0\0\0\0\0\0\x80", 14);
    pb_field f;

    EXPECT(pb_next(&r, &f) && f.number == 1 && f.value == 0x04030201);
    EXPECT(pb_next(&r, &f) && f.number == 2 &&
           f.value == UINT64_C(0x8000000000000001));
    EXPECT(!pb_next(&r, &f) && !r.bad);
}

static void nonsense(void)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x08", 1},     /* a number that is missing */
        {"\x08\x80", 2}, /* half of one */
        {"\x80", 1},     /* half a tag */
        {"\x00\x01", 2}, /* field 0 */
        {"\x12\x05"
         "four",
         6}, /* longer than there is */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11}, /* 65 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {"\x0b\x0c", 2},         /* a group */
        {"\x0e\x01", 2},         /* no such type */
        {"\x0d\x01\x02\x03", 4}, /* half a fixed32 */
        {"\x09\x01\x02\x03\x04\x05\x06\x07", 8},
        {"\x88\x80\x80\x80\x80\x01\x01", 7}, /* a field of 33 bits */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb_reader r = pb_read(cases[i].bytes, cases[i].len);
        pb_field f;

        if (pb_next(&r, &f) || !r.bad)
            FAIL_TEST("case %zu was taken for a message", i);
        EXPECT(!pb_next(&r, &f) && f.number == 0 && !f.bytes);
    }
}

static void nothing(void)
{
    pb_reader r = pb_read(NULL, 0);
    pb_field f;

    EXPECT(!pb_next(&r, &f) && !r.bad);
}

static const test_case cases[] = {
    TEST(numbers), TEST(texts),    TEST(inside),
    TEST(fixed),   TEST(nonsense), TEST(nothing),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "pb", cases, sizeof cases / sizeof *cases);
}
