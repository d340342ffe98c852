/* etcd_names_test.c - keys, values and queues, without a server.
 *
 * A name is read as what it was made of, and two entries never have one; what
 * is not an entry's name is not taken for one.  A value is read as what was
 * written, whatever a host or a program is called; what is not ours is an
 * exclusive entry.  A queue is judged by the core's rule, and by the wish of
 * Go's clients to be waited for. */
#include "harness/expect.h"
#include "harness/runner.h"

#include "store.h"

static etcd_text text_of(const char *text)
{
    return (etcd_text){text, strlen(text)};
}

static hf_id make_id(uint8_t first)
{
    hf_id id = {{first, 0xab, 0xcd}};

    return id;
}

/* ---- The name that is used again ---------------------------------------- */

static etcd_work *work_on(hf_store *store, const char *key)
{
    static const hf_id rid = {{7}};
    etcd_work *work = calloc(1, sizeof *work);

    EXPECT(work != NULL);
    work->store = store;
    etcd_name_entry(&work->names, store, key, strlen(key), 0x7b, &rid);
    return work;
}

static void end_work(etcd_work *work, bool answered)
{
    if (answered)
        work->pending = false;
    etcd_claim_end(work);
    free(work);
}

static void put_entry(hf_store *store, int64_t created)
{
    etcd_work *work = work_on(store, "k");

    EXPECT(etcd_claim_join(work));
    etcd_claim_put(work, created);
    end_work(work, true);
}

/* Who may use it, who may delete it without a condition. */
static void name_used_again(void)
{
    static hf_store store = {.mu = PTHREAD_MUTEX_INITIALIZER};
    etcd_work *leave = work_on(&store, "k"), *join = work_on(&store, "k");

    EXPECT(!etcd_claim_leave(leave, 5)); /* it is nobody's that we know */
    put_entry(&store, 5);
    EXPECT(etcd_claim_leave(leave, 5));
    EXPECT(!etcd_claim_join(join));
    end_work(leave, true);
    EXPECT(etcd_claim_join(join));
    leave = work_on(&store, "k");
    EXPECT(!etcd_claim_leave(leave, 5)); /* another may come */
    etcd_claim_put(join, 6);
    end_work(join, true);
    EXPECT(!etcd_claim_leave(leave, 5)); /* another has come */
    EXPECT(etcd_claim_leave(leave, 6));
    end_work(leave, true);
    /* A join that is never answered, on another name. */
    join = work_on(&store, "other");
    leave = work_on(&store, "other");
    EXPECT(etcd_claim_join(join));
    etcd_claim_put(join, 7);
    end_work(join, false);
    EXPECT(!etcd_claim_leave(leave, 7));
    end_work(leave, false);
    join = work_on(&store, "other");
    EXPECT(etcd_claim_join(join));
    end_work(join, true);
    /* A deletion that is never answered. */
    leave = work_on(&store, "k");
    EXPECT(etcd_claim_leave(leave, 6));
    end_work(leave, false);
    join = work_on(&store, "k");
    EXPECT(!etcd_claim_join(join));
    end_work(join, false);
}

/* ---- Names -------------------------------------------------------------- */

static void names_come_back(void)
{
    static const int64_t leases[] = {1, 0xf, 0x10, 0x694d, INT64_MAX};
    static hf_store store = {.prefix = "p/", .prefix_len = 2};
    hf_id rid = make_id(7), found;
    etcd_suffix name;
    etcd_names names;
    etcd_text own;

    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        etcd_name_entry(&names, &store, "a/b", 3, leases[i], &rid);
        EXPECT(etcd_same_text(names.dir, text_of("p/a/b/")));
        EXPECT(etcd_same_text(names.dir_end, text_of("p/a/b0")));
        own = (etcd_text){names.plain.at + 6, names.plain.len - 6};
        EXPECT(etcd_read_suffix(&name, own) && !name.has_rid);
        EXPECT_EQ(name.lease, leases[i]);
        own = (etcd_text){names.own.at + 6, names.own.len - 6};
        EXPECT(etcd_read_suffix(&name, own) && name.has_rid);
        EXPECT_EQ(name.lease, leases[i]);
        EXPECT(memcmp(&name.rid, &rid, sizeof rid) == 0);
        EXPECT(etcd_read_gone(&found, names.gone));
        EXPECT(memcmp(&found, &rid, sizeof rid) == 0);
        EXPECT(names.gone.at + names.gone.len <=
               names.bytes + sizeof names.bytes);
    }
}

static void no_entry_of_that_name(void)
{
    static const char *const names[] = {"",
                                        "0",
                                        "01",
                                        "x",
                                        "7B",
                                        "7b/1",
                                        "7b.",
                                        "7b.12",
                                        "!7b",
                                        "8000000000000000",
                                        "7b 1",
                                        "11111111111111111",
                                        "7b.0123456789abcdef0123456789abcdeF",
                                        "7b.0123456789abcdef0123456789abcdef0",
                                        "!0123456789abcdef0123456789abcdef"};
    etcd_suffix name;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        EXPECT(!etcd_read_suffix(&name, text_of(names[i])));
}

/* The longest key under the longest prefix fits, to the byte. */
static void longest_names_fit(void)
{
    static hf_store store = {.prefix_len = ETCD_PREFIX_MAX};
    static char key[HF_KEY_MAX];
    hf_id rid = make_id(1);
    etcd_names names;

    memset(store.prefix, 'p', ETCD_PREFIX_MAX);
    memset(key, 'k', sizeof key);
    etcd_name_entry(&names, &store, key, sizeof key, INT64_MAX, &rid);
    EXPECT(names.gone.at + names.gone.len <= names.bytes + sizeof names.bytes);
    EXPECT_EQ(names.own.len, ETCD_KEY_ROOM);
}

static void lease_of_a_session(void)
{
    hf_id zero = {{0}}, high = {{0x80}}, ones;

    memset(&ones, 0xff, sizeof ones);
    EXPECT_EQ(etcd_lease_of(&zero), 1);
    EXPECT_EQ(etcd_lease_of(&high), 1);
    EXPECT_EQ(etcd_lease_of(&ones), INT64_MAX);
}

/* ---- Values ------------------------------------------------------------- */

static void values_come_back(void)
{
    static const char odd[] = "a b%\n\x7f\xc3\xa4";
    char who[ETCD_WHO_MAX], host[ETCD_WHO_MAX], name[ETCD_WHO_MAX];
    etcd_record record = {.ours = true,
                          .mode = HF_PERMIT,
                          .places = UINT32_MAX,
                          .rid = make_id(1),
                          .sid = make_id(2),
                          .ttl = 30,
                          .pid = 4711,
                          .since_us = INT64_C(1794818205446907),
                          .value = {"one\ntwo\0three", 13}};
    hf__buf out = {.data = NULL};
    etcd_record read;

    etcd_make_who(who, sizeof who, odd, odd, sizeof odd - 1);
    record.who = text_of(who);
    for (int broken = 0; broken < 2; broken++) {
        record.broken = broken;
        etcd_put_record(&out, &record);
        etcd_read_record(&read,
                         (etcd_text){out.data + out.start, hf__buf_len(&out)});
        EXPECT(read.ours && read.broken == record.broken);
        EXPECT(read.mode == HF_PERMIT && read.places == UINT32_MAX);
        EXPECT(memcmp(&read.rid, &record.rid, sizeof read.rid) == 0);
        EXPECT(memcmp(&read.sid, &record.sid, sizeof read.sid) == 0);
        EXPECT(read.ttl == 30 && read.pid == 4711);
        EXPECT_EQ(read.since_us, record.since_us);
        EXPECT(etcd_same_text(read.value, record.value));
        etcd_split_who(read.who, host, sizeof host, name, sizeof name);
        EXPECT_STR(host, odd);
        EXPECT_STR(name, odd);
        hf__buf_done(&out);
    }
}

static void strangers_are_exclusive(void)
{
    static const char *const values[] = {
        "",
        "proposal",
        "\n",
        "holdfast1\n",
        "holdfast1 s 0\n",
        "holdfast1 q 0 0123456789abcdef0123456789abcdef "
        "0123456789abcdef0123456789abcdef 30 a 1 1 h n\n",
        "holdfast1 s 3 0123456789abcdef0123456789abcdef "
        "0123456789abcdef0123456789abcdef 30 a 1 1 h n\n",
        "holdfast2 s 0 0123456789abcdef0123456789abcdef "
        "0123456789abcdef0123456789abcdef 30 a 1 1 h n\n",
        "holdfast1 s 0 0123456789abcdef0123456789abcdef "
        "0123456789abcdef0123456789abcdef 30 a 1 1 h n"};
    etcd_record record;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        etcd_read_record(&record, text_of(values[i]));
        EXPECT(!record.ours && record.mode == HF_EXCLUSIVE);
        EXPECT(etcd_same_text(record.value, text_of(values[i])));
    }
}

/* ---- Queues ------------------------------------------------------------- */

static void add_seat(etcd_view *view, hf_mode mode, uint32_t places)
{
    static char suffixes[8][4];
    hf_place place = {.mode = (uint8_t)mode, .places = places};
    size_t i = view->count;

    EXPECT(etcd_view_add(view, &place));
    snprintf(suffixes[i], sizeof suffixes[i], "%zx", i + 1);
    view->entries[i].suffix = text_of(suffixes[i]);
}

static void expect_waits(const etcd_view *view, size_t me, size_t whom)
{
    etcd_ahead ahead;

    EXPECT_EQ(etcd_view_judge(view, me, &ahead), HF_WAITS);
    EXPECT(ahead.hash == etcd_hash(view->entries[whom].suffix));
    EXPECT_EQ(ahead.leaves, 0);
}

static void whom_one_waits_for(void)
{
    etcd_view view = {.count = 0};
    etcd_ahead ahead;

    add_seat(&view, HF_SHARED, 0);
    add_seat(&view, HF_EXCLUSIVE, 0);
    add_seat(&view, HF_SHARED, 0);
    add_seat(&view, HF_SHARED, 0);
    add_seat(&view, HF_EXCLUSIVE, 0);
    EXPECT_EQ(etcd_view_judge(&view, 0, &ahead), HF_GRANTED);
    expect_waits(&view, 1, 0);
    expect_waits(&view, 2, 1);
    expect_waits(&view, 3, 1);
    expect_waits(&view, 4, 3);
    EXPECT(etcd_view_other_kind(&view, 5, HF_PERMIT, 2));
    EXPECT(!etcd_view_other_kind(&view, 5, HF_EXCLUSIVE, 0));
    view.count = 0;
    add_seat(&view, HF_PERMIT, 2);
    add_seat(&view, HF_PERMIT, 2);
    add_seat(&view, HF_PERMIT, 2);
    add_seat(&view, HF_PERMIT, 2);
    EXPECT_EQ(etcd_view_judge(&view, 1, &ahead), HF_GRANTED);
    EXPECT_EQ(etcd_view_judge(&view, 3, &ahead), HF_WAITS);
    EXPECT(ahead.hash == 0 && ahead.leaves == 2);
    view.seats[1].mode = HF_EXCLUSIVE; /* one of Go's */
    expect_waits(&view, 2, 1);
    EXPECT(etcd_view_other_kind(&view, 4, HF_PERMIT, 3));
    EXPECT(!etcd_view_other_kind(&view, 4, HF_PERMIT, 2));
    EXPECT(!etcd_view_other_kind(&view, 0, HF_SHARED, 0));
    hfd_free(view.entries);
    hfd_free(view.seats);
}

static const test_case cases[] = {
    TEST(names_come_back),    TEST(no_entry_of_that_name),
    TEST(longest_names_fit),  TEST(lease_of_a_session),
    TEST(values_come_back),   TEST(strangers_are_exclusive),
    TEST(whom_one_waits_for), TEST(name_used_again),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, "etcd_names", cases,
                     sizeof cases / sizeof *cases);
}
