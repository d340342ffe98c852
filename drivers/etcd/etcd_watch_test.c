/* etcd_watch_test.c - the stream of watches in bad company.
 *
 * A thread plays the server (etcd_scene.h): it greets late and refuses streams
 * and watches.  Judged: how often it is asked, what is asked in the end, and
 * that nothing comes to a watcher that is gone. */
#include "harness/ensemble.h"
#include "harness/expect.h"
#include "harness/runner.h"

#include "etcd_scene.h"

enum { LATE_MS = 300 };

/* The store is closed while its connection is being opened again: the one that
 * comes to stand then is told to nobody. */
static void closed_while_it_dials(void)
{
    scene *s = scene_open(answer_nothing, on_watch);
    hf_place place;

    wait_in_queue(s, &place, HEARD);
    AWAIT(atomic_load(&watch.asked) == 1);
    atomic_store(&s->p.late_ms, LATE_MS);
    shutdown(watch.fd, SHUT_RDWR);
    AWAIT(atomic_load(&s->p.connections) == 2);
    scene_close(s);
    EXPECT_EQ(atomic_load(&watch.asked), 1);
}

static const test_case cases[] = {
    TEST_LIMIT(closed_while_it_dials, 120),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_watch", cases,
                     sizeof cases / sizeof *cases);
}
