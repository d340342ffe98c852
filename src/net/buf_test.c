/* buf_test.c - bytes come out as they went in, however they are added and
 * eaten; no memory is said and not hidden. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <holdfast/driver.h>

#include "net/buf.h"

static unsigned seed = 4711;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static void random_steps(void)
{
    hf__buf buf = {0};
    unsigned char in = 0, out = 0, bytes[700];

    for (int step = 0; step < 20000; step++) {
        size_t n = draw(2) ? draw(9) : draw(sizeof bytes);

        if (draw(2)) {
            for (size_t i = 0; i < n; i++)
                bytes[i] = in++;
            hf__buf_add(&buf, bytes, n);
        } else {
            n = n < hf__buf_len(&buf) ? n : hf__buf_len(&buf);
            for (size_t i = 0; i < n; i++)
                EXPECT_EQ((unsigned char)buf.data[buf.start + i], out++);
            hf__buf_eat(&buf, n);
        }
        EXPECT_EQ((unsigned char)(in - out), hf__buf_len(&buf) % 256);
        EXPECT(!buf.failed);
    }
    hf__buf_done(&buf);
    EXPECT_EQ(hf__buf_len(&buf), 0);
}

static void huge_is_given_back(void)
{
    hf__buf buf = {0};

    EXPECT(hf__buf_room(&buf, 1 << 20) != NULL);
    buf.end += 1 << 20;
    hf__buf_eat(&buf, 1 << 20);
    EXPECT_EQ(buf.room, 0);
    hf__buf_add(&buf, "abc", 3);
    EXPECT_EQ(hf__buf_len(&buf), 3);
    hf__buf_done(&buf);
}

static void *refuse(void *p, size_t size, void *user)
{
    (void)user;
    if (size == 0)
        free(p);
    return NULL;
}

static void no_memory(void)
{
    hf__buf buf = {0};

    hf__buf_add(&buf, "abc", 3);
    hf_set_alloc(refuse, NULL);
    EXPECT(hf__buf_room(&buf, 100000) == NULL);
    EXPECT(buf.failed);
    hf__buf_add(&buf, "d", 1);
    EXPECT_EQ(hf__buf_len(&buf), 3); /* what is not whole does not grow */
    hf__buf_done(&buf);
    EXPECT(!buf.failed);
    hf_set_alloc(NULL, NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(random_steps), TEST(huge_is_given_back), TEST(no_memory)};

    return run_tests(argc, argv, "buf", cases, sizeof cases / sizeof *cases);
}
