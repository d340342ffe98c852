/* zkwords.c - any text as what a ZooKeeper ensemble, or whoever wrote into it,
 * says in words: srvr and conf, names of nodes, paths, the data of a node.
 *
 * The first byte says what it is read as.  Promises: nothing outside of the
 * text is read; doctor has a sentence for every such ensemble; a name that is
 * an entry of ours is written again as it was; a path that stands for a key is
 * the very path of that key; times that are read can be counted with. */
#include "fuzz.h"

#include "../../drivers/zookeeper/name.h"
#include "../../drivers/zookeeper/path.h"
#include "../../drivers/zookeeper/probe.h"
#include "../../drivers/zookeeper/store.h"

static void check_finding(hf_level level, const char *name, const char *text,
                          void *user)
{
    (void)user;
    PROMISE(level <= HF_FAIL && name[0] != '\0' && text[0] != '\0');
}

/* Three members, which say the same in words that a byte of it cuts. */
static void check_ensemble(char *text, size_t len)
{
    zk_facts facts = {.lease = HF_MS(30000),
                      .tick = HF_MS(2000),
                      .attached = true,
                      .timeout_ms = 30000,
                      .member_count = 3};

    for (size_t i = 0; i < facts.member_count; i++) {
        zk_probed *member = &facts.members[i];

        snprintf(member->name, sizeof member->name, "member %zu", i);
        member->reached = true;
        zk_probed_srvr(member, text);
        zk_probed_conf(member, text);
        PROMISE(strlen(member->mode) < sizeof member->mode);
        PROMISE(strlen(member->version) < sizeof member->version);
        PROMISE(member->voters != 0 && member->observers >= 0);
        if (len > 0)
            text[len / 2] = '\0';
    }
    zk_judge(&facts, check_finding, NULL);
}

static void check_name(const char *text, size_t len)
{
    zk_name name = {.kind = ZK_KIND_NONE};
    char again[ZK_NAME_ROOM + 16];

    if (!zk_name_parse(&name, text, len))
        return;
    PROMISE(name.kind > ZK_KIND_NONE && name.kind <= ZK_KIND_LEASE);
    PROMISE(name.maker >= ZK_OURS && name.maker <= ZK_STRANGER);
    PROMISE(zk_seq_order(name.seq, name.seq) == 0);
    zk_name_sees(&name, ZK_KIND_WRITE);
    if (name.maker != ZK_OURS)
        return;
    PROMISE(zk_name_write_seq(again, &name.id, name.kind, name.seq) <
            sizeof again);
    PROMISE(len == strlen(again) && memcmp(again, text, len) == 0);
}

static void check_path(const char *text, size_t len)
{
    static const char *const roots[] = {"", "/locks"};

    for (size_t i = 0; i < 2; i++) {
        size_t root_len = strlen(roots[i]), key_len = 0;
        char *key = malloc(len + 1), *again;
        bool is_key = zk_path_is_key(roots[i], root_len, text, len);

        PROMISE(key != NULL);
        if (zk_path_read(key, &key_len, roots[i], root_len, text, len)) {
            PROMISE(key_len <= len && key[key_len] == '\0');
            again = malloc(ZK_PATH_ROOM(root_len, key_len));
            PROMISE(again != NULL);
            zk_path_write(again, roots[i], root_len, key, key_len);
            PROMISE(!is_key ||
                    (strlen(again) == len && memcmp(again, text, len) == 0));
            free(again);
        } else {
            PROMISE(!is_key);
        }
        free(key);
    }
    zk_path_is_root(text, len);
}

static void check_data(const char *text, size_t len)
{
    char *plain = malloc(len + 1);
    zk_data data;

    PROMISE(plain != NULL);
    zk_data_read(&data, text, len);
    PROMISE(data.ttl_ms >= 0 && data.ttl_ms <= HF_MS_MAX);
    PROMISE(data.broken_ms >= 0 && data.broken_ms <= HF_MS_MAX);
    PROMISE(data.value_len <= len && data.host_len <= len);
    zk_data_unescape(plain, data.host, data.host_len);
    PROMISE(strlen(plain) <= data.host_len);
    zk_data_unescape(plain, data.name, data.name_len);
    PROMISE(strlen(plain) <= data.name_len);
    free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    unsigned how = take_byte(&in);
    size_t len = (size_t)(in.end - in.at);
    char *text = malloc(len + 1);

    PROMISE(text != NULL);
    if (len > 0)
        memcpy(text, in.at, len);
    text[len] = '\0';
    if (how % 4 == 0)
        check_ensemble(text, len);
    else if (how % 4 == 1)
        check_name(text, len);
    else if (how % 4 == 2)
        check_path(text, len);
    else
        check_data(text, len);
    free(text);
    return 0;
}
