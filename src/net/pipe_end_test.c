/* pipe_end_test.c - how a pipe ends: told once, with the first reason, after
 * the last answer, to all. */
#include "harness/expect.h"
#include "harness/runner.h"

#include <sys/socket.h>
#include <unistd.h>

#include "net/pipe_client.h"

static void check_end(peer *p, int code, const char *text)
{
    client c = {0};
    waiting w[3] = {0};

    client_to(&c, p, false);
    for (int i = 0; i < 3; i++) {
        if (ask(&c, &w[i].mine, i, NULL))
            wait_start(&w[i], &c, 20000);
        else
            w[i].until = 0;
    }
    for (int i = 0; i < 3; i++) {
        if (w[i].until == 0)
            continue;
        pthread_join(w[i].thread, NULL);
        EXPECT(w[i].answer);
        EXPECT(hfd_now() < w[i].until - HF_MS(5000));
    }
    EXPECT_EQ(atomic_load(&c.broken), 1);
    EXPECT(hf__pipe_is_broken(c.pipe));
    EXPECT_EQ(c.why.code, code);
    EXPECT_HAS(c.why.text, text);
    EXPECT(hf__pipe_begin(c.pipe) == NULL);
    hf__pipe_dispatch(c.pipe);
    EXPECT_EQ(atomic_load(&c.answers), 0);
    client_close(&c);
    peer_stop(p);
}

static void closed_in_an_answer(void)
{
    check_end(&(peer){.last_word = "12", .first_ms = 100}, HF_EUNAVAIL,
              "closed the connection");
    check_end(&(peer){.last_word = "12"}, HF_EUNAVAIL, ": ");
}

static void nonsense(void)
{
    check_end(&(peer){.last_word = "!what\n", .first_ms = 100}, HF_EPROTO,
              "not the protocol");
}

static void cut_while_read(void)
{
    client c = {0};
    peer p = {.first_ms = 200};
    waiting a = {0}, b = {0};
    hf_error late = {.code = HF_EUNAVAIL, .text = "too late"}, second = {0};

    for (int patient = 0; patient < 2; patient++) {
        c = (client){0};
        a = b = (waiting){0};
        client_to(&c, &p, patient);
        EXPECT(ask(&c, &a.mine, 1, NULL));
        EXPECT(ask(&c, &b.mine, 2, NULL));
        wait_start(&a, &c, 20000);
        wait_start(&b, &c, 20000);
        hf__pipe_cut(c.pipe, &late);
        hf__pipe_cut(c.pipe, &second);
        pthread_join(a.thread, NULL);
        pthread_join(b.thread, NULL);
        EXPECT(a.answer && b.answer);
        EXPECT_EQ(atomic_load(&c.broken), 1);
        EXPECT_STR(c.why.text, "too late");
        client_close(&c);
        peer_stop(&p);
    }
}

static void cut_while_idle(void)
{
    client c = {0};
    peer p = {0};
    hf__waiter w = {0};
    hf_error why = {.code = HF_EUNAVAIL, .text = "enough"};
    hf_nsec until = hfd_now() + HF_MS(60);

    client_to(&c, &p, false);
    hf__pipe_cut(c.pipe, &why);
    EXPECT_EQ(atomic_load(&c.broken), 1);
    EXPECT_STR(c.why.text, "enough");
    /* Who waits on what is broken waits until his instant, or is woken. */
    EXPECT(!hf__pipe_wait(c.pipe, &w, until));
    EXPECT(hfd_now() >= until);
    hf__pipe_wake(c.pipe, &w);
    EXPECT(hf__pipe_wait(c.pipe, &w, hfd_now() + HF_MS(30000)));
    client_close(&c);
    peer_stop(&p);
}

/* Nobody waits and the peer is gone: the epoll's owner tells it. */
static void broken_while_attended(void)
{
    client c = {0};
    peer p = {.last_word = ""};

    client_to(&c, &p, false);
    keeper_start(&c);
    ask_attended(&c, 1);
    EXPECT(WAIT_FOR(atomic_load(&c.broken) == 1, 20000));
    EXPECT_EQ(atomic_load(&c.attended), 1);
    keeper_stop(&c);
    client_close(&c);
    peer_stop(&p);
}

static void *refuse(void *p, size_t size, void *user)
{
    (void)user;
    if (size == 0)
        free(p);
    return NULL;
}

/* A command that may be half there is never sent; the end is told instead. */
static void no_memory_for_a_command(void)
{
    client c = {0};
    peer p = {0};
    hf__waiter w = {0};
    hf__buf *out;

    client_to(&c, &p, false);
    hf_set_alloc(refuse, NULL);
    out = hf__pipe_begin(c.pipe);
    EXPECT(out != NULL);
    hf__buf_add(out, "1\n", 2);
    EXPECT(out->failed);
    hf__pipe_end(c.pipe);
    hf_set_alloc(NULL, NULL);
    EXPECT(hf__pipe_is_broken(c.pipe));
    EXPECT(!hf__pipe_wait(c.pipe, &w, hfd_now() + HF_MS(50)));
    EXPECT_EQ(atomic_load(&c.broken), 1);
    EXPECT_EQ(c.why.code, HF_ENOMEM);
    client_close(&c);
    peer_stop(&p);
}

/* The last word of a server that closed is heard although a send failed. */
static void last_word(void)
{
    client c = {0};
    peer p = {.last_word = "5\n"};
    call first = {0}, second = {0};
    int tries = 0;

    client_to(&c, &p, false);
    EXPECT(ask(&c, &first, 5, NULL));
    peer_stop(&p); /* it has answered and is gone */
    /* Sending works until the reset has come. */
    while (tries++ < 1000 && ask(&c, &second, 6, NULL)) {
        second = (call){0};
        test_sleep_ms(2);
        c.first->next = NULL;
        c.last = &c.first->next;
    }
    EXPECT(tries < 1000);
    EXPECT_EQ(atomic_load(&c.broken), 0);
    EXPECT(hf__pipe_wait(c.pipe, &first.waiter, hfd_now() + HF_MS(20000)));
    EXPECT_EQ(atomic_load(&c.answers), 1);
    hf__pipe_dispatch(c.pipe);
    EXPECT_EQ(atomic_load(&c.broken), 1);
    client_close(&c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {TEST(closed_in_an_answer),
                                      TEST(nonsense),
                                      TEST(cut_while_read),
                                      TEST(cut_while_idle),
                                      TEST(broken_while_attended),
                                      TEST(no_memory_for_a_command),
                                      TEST(last_word)};

    return run_tests(argc, argv, "pipe_end", cases,
                     sizeof cases / sizeof *cases);
}
