/* child_test.c - a command is not begun when its time is over.
 *
 * Between the grant and the exec the wrapper may stand still for longer than
 * the lease, and no script can stop it just there: so the pieces are put
 * together by hand, with a guardian whose instant has come. */
#include "../../cli/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/expect.h"
#include "harness/runner.h"

static int spawn(struct guardian *g, pid_t *ret)
{
    char word[] = "true", *argv[] = {word, NULL};
    sigset_t none;
    struct child_plan plan = {.argv = argv,
                              .env = environ,
                              .keep = {-1, -1},
                              .mask = &none,
                              .tty = -1,
                              .page = g->page};

    sigemptyset(&none);
    return child_spawn(&plan, ret);
}

static void end(struct guardian *g)
{
    guardian_stop(g);
    guardian_reap(g);
}

static void in_time(void)
{
    struct guardian g;
    pid_t pid = 0;
    int status;

    EXPECT_EQ(guardian_start(&g, -1), 0);
    atomic_store(&g.page->due_ns, boottime_ns() + INT64_C(60000000000));
    guardian_arm(&g, -1);
    EXPECT_EQ(spawn(&g, &pid), 0);
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    end(&g);
}

static void too_late(void)
{
    struct guardian g;
    pid_t pid = 0;

    EXPECT_EQ(guardian_start(&g, -1), 0);
    atomic_store(&g.page->due_ns, boottime_ns() - 1);
    EXPECT_EQ(spawn(&g, &pid), ETIME);
    EXPECT_EQ(pid, 0);
    end(&g);
}

/* The guardian has been there before, and found nobody. */
static void the_guardian_found_nobody(void)
{
    struct guardian g;
    pid_t pid = 0;

    EXPECT_EQ(guardian_start(&g, -1), 0);
    atomic_store(&g.page->due_ns, boottime_ns() - INT64_C(60000000000));
    guardian_arm(&g, -1);
    test_sleep_ms(200);
    EXPECT_EQ(spawn(&g, &pid), ETIME);
    EXPECT(!atomic_load(&g.page->struck));
    end(&g);
}

static const test_case cases[] = {
    TEST(in_time),
    TEST(too_late),
    TEST(the_guardian_found_nobody),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "child", cases, sizeof cases / sizeof *cases);
}
