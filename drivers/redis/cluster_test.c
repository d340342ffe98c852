/* cluster_test.c - what a cluster says, read right; and what it may not say.
 *
 * The slots of names that others have computed, replies of CLUSTER SLOTS with
 * everything that may be missing in them, addresses in MOVED and ASK, nodes
 * that become fewer while they are asked, URLs that no cluster can serve. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster.h"
#include "harness/expect.h"
#include "harness/runner.h"

static void slots_of_names(void)
{
    /* As CLUSTER KEYSLOT answers. */
    EXPECT_EQ(redis_slot_of("", 0), 0);
    EXPECT_EQ(redis_slot_of("123456789", 9), 12739);
    EXPECT_EQ(redis_slot_of("holdfast", 8), 8121);
    EXPECT_EQ(redis_slot_of("t", 1), 15891);
}

static bool read_text(const char *text, unsigned slot, redis_found *owner,
                      redis_found *nodes, size_t *io_count)
{
    resp reply;

    EXPECT_EQ(resp_size(text, strlen(text)), (long)strlen(text));
    reply = resp_at(text);
    return redis_read_slots(&reply, slot, "asked", owner, nodes, io_count);
}

static void owners_and_nodes(void)
{
    static const char text[] =
        "*3\r\n"
        "*4\r\n:0\r\n:99\r\n*3\r\n$3\r\none\r\n:7001\r\n$1\r\na\r\n"
        "*3\r\n$5\r\nthree\r\n:7003\r\n$1\r\nc\r\n"
        "*3\r\n:100\r\n:100\r\n*3\r\n$0\r\n\r\n:7002\r\n$1\r\nb\r\n"
        "*3\r\n:102\r\n:16383\r\n*3\r\n$-1\r\n:7004\r\n$1\r\nd\r\n";
    redis_found owner, nodes[3];
    size_t count = 3;

    EXPECT(read_text(text, 99, &owner, nodes, &count));
    EXPECT_STR(owner.host, "one");
    EXPECT_EQ(owner.port, 7001);
    EXPECT_EQ(count, 3); /* owners first, and no more than there is room */
    EXPECT_EQ(nodes[1].port, 7002);
    EXPECT_EQ(nodes[2].port, 7004);
    count = 3;
    EXPECT(read_text(text, 100, &owner, nodes, &count));
    EXPECT_STR(owner.host, "asked"); /* it does not know its own address */
    EXPECT(read_text(text, 16383, &owner, nodes, &count));
    EXPECT_STR(owner.host, "asked");
    EXPECT(!read_text(text, 101, &owner, nodes, &count)); /* nobody's */
}

static void replies_that_are_none(void)
{
    static const char *const texts[] = {
        "*0\r\n",
        ":1\r\n",
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:9\r\n",
        "*1\r\n*3\r\n:0\r\n:9\r\n*0\r\n",
        "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\nh\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\nh\r\n:65536\r\n",
        "*1\r\n*3\r\n$1\r\nx\r\n:9\r\n*2\r\n$1\r\nh\r\n:1\r\n"};
    redis_found owner, nodes[2];

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t count = 2;

        EXPECT(!read_text(texts[i], 5, &owner, nodes, &count));
    }
}

static bool read_error(const char *text, redis_found *ret)
{
    resp error = {.type = RESP_ERROR, .text = text, .len = strlen(text)};

    return redis_read_moved(&error, ret);
}

static void addresses_in_errors(void)
{
    redis_found to;

    EXPECT(read_error("MOVED 8121 10.0.0.7:7001", &to));
    EXPECT_STR(to.host, "10.0.0.7");
    EXPECT_EQ(to.port, 7001);
    EXPECT(read_error("ASK 1 ::1:7002", &to));
    EXPECT_STR(to.host, "::1");
    EXPECT_EQ(to.port, 7002);
    EXPECT(!read_error("MOVED", &to));
    EXPECT(!read_error("MOVED 8121", &to));
    EXPECT(!read_error("MOVED 8121 host", &to));
    EXPECT(!read_error("MOVED 8121 :7001", &to));
    EXPECT(!read_error("MOVED 8121 host:", &to));
    EXPECT(!read_error("MOVED 8121 host:99999999999999999999", &to));
}

/* Nodes that end every connection; at the second one the list of nodes becomes
 * shorter, as if another thread had learned that. */
typedef struct dead_nodes {
    redis_cluster cluster;
    int listener;
    int asked;
} dead_nodes;

static void *hang_up(void *arg)
{
    dead_nodes *d = arg;
    int fd;

    while ((fd = accept(d->listener, NULL, NULL)) >= 0) {
        if (++d->asked == 2) {
            pthread_mutex_lock(&d->cluster.mu);
            d->cluster.node_count = 1;
            pthread_mutex_unlock(&d->cluster.mu);
        }
        close(fd);
    }
    return NULL;
}

static void fewer_nodes_meanwhile(void)
{
    dead_nodes d = {0};
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    hf__address seed = {.host = "127.0.0.1"};
    redis_settings settings = {.addresses = &seed, .address_count = 1};
    redis_found found;
    hf_error err = {0};
    pthread_t thread;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    d.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(d.listener, (struct sockaddr *)&at, len), 0);
    EXPECT_EQ(listen(d.listener, 8), 0);
    EXPECT_EQ(getsockname(d.listener, (struct sockaddr *)&at, &len), 0);
    seed.port = ntohs(at.sin_port);
    EXPECT_OK(redis_cluster_init(&d.cluster, &settings, "t", &err), err);
    for (int i = 0; i < 3; i++)
        d.cluster.nodes[i] = d.cluster.seeds[0];
    d.cluster.node_count = 3;
    EXPECT_EQ(pthread_create(&thread, NULL, hang_up, &d), 0);
    EXPECT_CODE(d.cluster.finder.find(&d.cluster, &found,
                                      hfd_now() + HF_MS(20000), &err),
                HF_EUNAVAIL);
    EXPECT_HAS(err.text, "luster");
    shutdown(d.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    EXPECT_EQ(d.asked, 2); /* of four, which are two by now */
    close(d.listener);
    redis_cluster_done(&d.cluster);
}

static void refuse(const char *url, const char *part)
{
    hf_session *s = NULL;
    hf_error err;

    EXPECT_CODE(hf_open(&s, url, NULL, &err), HF_EURL);
    EXPECT_HAS(err.text, part);
}

static void urls_refused(void)
{
    refuse("redis+cluster://127.0.0.1:1/?format=simple", "many slots");
    refuse("redis+cluster://127.0.0.1:1/3", "no databases");
    refuse("redis+cluster://127.0.0.1:1/?db=1", "no databases");
    refuse("redis+cluster://127.0.0.1:1/?ca_file=x", "rediss");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        TEST(slots_of_names),        TEST(owners_and_nodes),
        TEST(replies_that_are_none), TEST(addresses_in_errors),
        TEST(fewer_nodes_meanwhile), TEST(urls_refused),
    };

    return run_tests(argc, argv, "redis_cluster", cases,
                     sizeof cases / sizeof *cases);
}
