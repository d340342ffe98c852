/* inspect.c - what an operator sees and does.
 *
 * Checks on every store: hf_list tells every entry, in order, with what its
 * owner said about itself; values are shown and changed; hf_doctor finds a
 * fresh store fit; and the texts that go with the codes.  hf_break is
 * break.c. */
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- hf_list ----------------------------------------------------------- */

enum { MOST = 32 };

struct row {
    char key[64];
    hf_entry_info info; /* its pointers are not to be used */
    char name[64], value[64];
};
struct table {
    int n;
    struct row rows[MOST];
};

static int note_row(const hf_entry_info *entry, void *user)
{
    struct table *t = user;

    EXPECT(t->n < MOST);
    struct row *r = &t->rows[t->n++];
    r->info = *entry;
    EXPECT(entry->key != NULL && strlen(entry->key) == entry->key_len);
    EXPECT(entry->host != NULL && entry->name != NULL);
    EXPECT(entry->key_len < sizeof(r->key) &&
           entry->value_len < sizeof(r->value));
    memcpy(r->key, entry->key, entry->key_len + 1);
    snprintf(r->name, sizeof(r->name), "%s", entry->name);
    if (entry->value_len > 0)
        memcpy(r->value, entry->value, entry->value_len);
    return 0;
}

static struct table *list_all(hf_session *s, const char *prefix)
{
    static struct table t;
    hf_error err;

    memset(&t, 0, sizeof(t));
    EXPECT_OK(hf_list(s, prefix, note_row, &t, &err), err);
    return &t;
}

/* One holder and one waiter, each with all its facts. */
static void list_facts(void)
{
    hf_open_options named = {HF_OPEN_OPTIONS, .lease_ms = 10000,
                             .name = "payments"};
    hf_session *a = NULL, *b = open_store();
    hf_error err;

    EXPECT_OK(hf_open(&a, store_url(), &named, &err), err);
    EXPECT_EQ(list_all(b, NULL)->n, 0);
    hf_hold *hold = take_with(
        a, "k",
        (hf_lock_options){HF_LOCK_OPTIONS, .value = "run 7", .value_len = 5});
    waiter w;
    waiter_start(&w, b, "k", (hf_lock_options){HF_LOCK_OPTIONS});
    await_waiting(a, "k", 1);
    sleep_ms(20);

    struct table *t = list_all(b, NULL);
    EXPECT_EQ(t->n, 2);
    const hf_entry_info *first = &t->rows[0].info, *second = &t->rows[1].info;
    EXPECT_STR(t->rows[0].key, "k");
    EXPECT_STR(t->rows[1].key, "k");
    EXPECT(first->mode == HF_EXCLUSIVE && second->mode == HF_EXCLUSIVE);
    EXPECT(first->granted && !second->granted);
    EXPECT(!first->mine && second->mine);
    EXPECT(!first->broken && !first->closed);
    EXPECT(first->number < second->number);
    EXPECT(first->token == hf_hold_token(hold) && second->token == 0);
    EXPECT(first->pid == 0 || first->pid == getpid());
    EXPECT_STR(t->rows[0].name, "payments");
    EXPECT(first->value_len == 5 && memcmp(t->rows[0].value, "run 7", 5) == 0);
    EXPECT_EQ(second->value_len, 0);
    EXPECT(first->age_ms == -1 || first->age_ms >= 19);
    EXPECT(first->remaining_ms == -1 ||
           (first->remaining_ms > 0 && first->remaining_ms <= 10000));
    EXPECT(list_all(a, NULL)->rows[0].info.mine);
    give(hold);
    EXPECT_CODE(waiter_finish(&w), 0);
    hf_close(a);
    hf_close(b);
}

/* Queue by queue, in the queue's order; the prefix chooses by first bytes. */
static void list_order(void)
{
    static const char *const keys[] = {"b", "a/2", "a/1", "a", "c%", "c%x"};
    enum { N = sizeof(keys) / sizeof(keys[0]) };
    hf_session *s[2] = {open_store(), open_store()};
    hf_lock_options shared = {HF_LOCK_OPTIONS, .mode = HF_SHARED};

    for (int i = 0; i < N; i++)
        for (int j = 0; j < 2; j++)
            take_with(s[j], keys[i], shared);
    struct table *t = list_all(s[0], NULL);
    EXPECT_EQ(t->n, 2 * N);
    for (int i = 0; i < t->n; i += 2) {
        EXPECT_STR(t->rows[i].key, t->rows[i + 1].key);
        EXPECT(t->rows[i].info.number < t->rows[i + 1].info.number);
        EXPECT(t->rows[i].info.mode == HF_SHARED);
        EXPECT(t->rows[i].info.token != t->rows[i + 1].info.token);
        for (int j = i + 2; j < t->n; j++)
            EXPECT(strcmp(t->rows[i].key, t->rows[j].key) != 0);
    }
    EXPECT_EQ(list_all(s[0], "a")->n, 6);
    EXPECT_EQ(list_all(s[0], "a/")->n, 4);
    EXPECT_EQ(list_all(s[0], "c%")->n, 4);
    EXPECT_EQ(list_all(s[0], "c%x")->n, 2);
    EXPECT_EQ(list_all(s[0], "A")->n, 0);
    EXPECT_EQ(list_all(s[0], "a/1x")->n, 0);
    EXPECT_EQ(list_all(s[0], "")->n, 2 * N);
    hf_close(s[0]);
    EXPECT_EQ(list_all(s[1], NULL)->n, N);
    hf_close(s[1]);
}

/* Permits show their places. */
static void list_permits(void)
{
    hf_session *s = open_store();
    hf_hold *one = NULL, *two = NULL;

    EXPECT_CODE(hf_lock_permit(s, "p", 5, NULL, &one, NULL), 0);
    EXPECT_CODE(hf_lock_permit(s, "p", 5, NULL, &two, NULL), 0);
    struct table *t = list_all(s, "p");
    EXPECT_EQ(t->n, 2);
    for (int i = 0; i < 2; i++) {
        EXPECT(t->rows[i].info.mode == HF_PERMIT && t->rows[i].info.granted);
        EXPECT_EQ(t->rows[i].info.places, 5);
    }
    hf_close(s);
}

/* fn returns another value than 0: that ends the listing and is returned. */
static int stop_at_second(const hf_entry_info *entry, void *user)
{
    (void)entry;
    return ++*(int *)user == 2 ? 42 : 0;
}

static void list_ends(void)
{
    hf_session *s = open_store();
    int calls = 0;

    take(s, "a");
    take(s, "b");
    take(s, "c");
    EXPECT_EQ(hf_list(s, NULL, stop_at_second, &calls, NULL), 42);
    EXPECT_EQ(calls, 2);
    EXPECT_CODE(hf_list(s, NULL, NULL, NULL, NULL), HF_EINVAL);
    give(take(s, "d"));
    hf_close(s);
}

/* ---- Values ------------------------------------------------------------ */

static void expect_value(hf_session *s, hf_hold *hold, const void *value,
                         size_t len)
{
    char buf[64];
    size_t got = 99;

    EXPECT_CODE(hf_hold_value(hold, buf, sizeof(buf), &got), 0);
    EXPECT(got == len && memcmp(buf, value, len) == 0);
    struct table *t = list_all(s, "k");
    EXPECT(t->n == 1 && t->rows[0].info.value_len == len);
    EXPECT(memcmp(t->rows[0].value, value, len) == 0);
}

/* Copied at the lock, changed by hf_publish, any bytes, also none. */
static void values(void)
{
    hf_session *s = open_store(), *other = open_store();
    char own[] = "first";
    hf_hold *hold = take_with(
        s, "k",
        (hf_lock_options){HF_LOCK_OPTIONS, .value = own, .value_len = 5});

    memset(own, 'x', sizeof(own));
    expect_value(other, hold, "first", 5);
    EXPECT_CODE(hf_publish(hold, "a\0\xff", 3, NULL), 0);
    expect_value(other, hold, "a\0\xff", 3);
    EXPECT_CODE(hf_publish(hold, NULL, 0, NULL), 0);
    expect_value(other, hold, "", 0);
    give(hold);
    /* Not the next holder's. */
    hold = take(other, "k");
    expect_value(s, hold, "", 0);
    give(hold);
    hf_close(s);
    hf_close(other);
}

/* At most cap bytes are copied, the length is the whole one. */
static void value_is_cut(void)
{
    hf_session *s = open_store();
    hf_hold *hold = take_with(
        s, "k",
        (hf_lock_options){HF_LOCK_OPTIONS, .value = "abcdef", .value_len = 6});
    char buf[8] = "zzzzzzz";
    size_t len = 0;

    EXPECT_CODE(hf_hold_value(hold, buf, 3, &len), 0);
    EXPECT(len == 6 && memcmp(buf, "abcz", 4) == 0);
    EXPECT_CODE(hf_hold_value(hold, NULL, 0, &len), 0);
    EXPECT(len == 6);
    give(hold);
    hf_close(s);
}

/* HF_VALUE_MAX bytes and not one more. */
static void value_limit(void)
{
    hf_session *s = open_store();
    char big[HF_VALUE_MAX + 1];
    size_t len = 0;
    hf_hold *hold = take(s, "k"), *other = NULL;

    memset(big, 'v', sizeof(big));
    EXPECT_CODE(hf_publish(hold, big, HF_VALUE_MAX, NULL), 0);
    EXPECT_CODE(hf_publish(hold, big, HF_VALUE_MAX + 1, NULL), HF_EINVAL);
    EXPECT_CODE(hf_hold_value(hold, NULL, 0, &len), 0);
    EXPECT_EQ(len, HF_VALUE_MAX);
    hf_lock_options opt = {HF_LOCK_OPTIONS, .value = big,
                           .value_len = HF_VALUE_MAX + 1};
    EXPECT_CODE(hf_lock(s, "other", &opt, &other, NULL), HF_EINVAL);
    opt.value_len = 3;
    opt.value = NULL;
    EXPECT_CODE(hf_lock(s, "other", &opt, &other, NULL), HF_EINVAL);
    EXPECT(other == NULL);
    give(hold);
    hf_close(s);
}

/* ---- hf_doctor, texts -------------------------------------------------- */

static void note_finding(hf_level level, const char *name, const char *text,
                         void *user)
{
    /* A database of the tests does not flush its disk, and that is found. */
    EXPECT(level == HF_FINE || level == HF_WARN ||
           (store_is_database() && strcmp(name, "durability") == 0));
    EXPECT(name != NULL && name[0] != '\0' && strpbrk(name, " \t\n") == NULL);
    EXPECT(text != NULL && text[0] != '\0' && strchr(text, '\n') == NULL);
    ++*(int *)user;
}

/* A fresh local store is fit; every finding is a word and a sentence. */
static void doctor(void)
{
    hf_session *s = open_store();
    hf_error err;
    int findings = 0;

    EXPECT_OK(hf_doctor(s, note_finding, &findings, &err), err);
    EXPECT(findings > 0);
    EXPECT_CODE(hf_doctor(s, NULL, NULL, NULL), HF_EINVAL);
    hf_close(s);
}

/* Every code has a name, a class and a text, and none shares its number. */
static void codes(void)
{
    static const struct {
        int code;
        const char *name, *text;
        hf_class class_;
    } map[] = {
#define ROW(name, number, class_, text)                                        \
    {number, "HF_" #name, text, HF_CLASS_##class_},
        HF_ERROR_MAP(ROW)
#undef ROW
    };
    size_t n = sizeof(map) / sizeof(map[0]);

    for (size_t i = 0; i < n; i++) {
        EXPECT(map[i].code < 0);
        EXPECT_STR(hf_error_name(map[i].code), map[i].name);
        EXPECT_STR(hf_strerror(map[i].code), map[i].text);
        EXPECT(hf_error_class(map[i].code) == map[i].class_);
        for (size_t j = 0; j < i; j++)
            EXPECT(map[i].code != map[j].code);
    }
    EXPECT(hf_error_class(0) == HF_CLASS_OK);
    EXPECT_STR(hf_error_name(0), "HF_OK");
    EXPECT(hf_strerror(0) != NULL && hf_strerror(0)[0] != '\0');
    EXPECT(hf_strerror(-9999) != NULL && hf_error_name(-9999) != NULL);
    EXPECT(hf_error_class(-9999) != HF_CLASS_OK);
    EXPECT_STR(hf_version(), HF_VERSION_TEXT);
}

static const test_case cases[] = {
    TEST(list_facts),  TEST(list_order), TEST(list_permits),
    TEST(list_ends),   TEST(values),     TEST(value_is_cut),
    TEST(value_limit), TEST(doctor),     TEST(codes),
};
RUN_ON_TARGET("inspect", cases)
