/* names.c - keys are bytes: distinct ones never meet, whatever they look like.
 *
 * Stores have collations, patterns, escapes, prefixes and length limits of
 * their own; none of them may show.  A key that is out of use leaves nothing
 * behind, and its numbers go on rising. */
#include "suite.h"

static hf_place make_bytes(const char *key, size_t len)
{
    hf_place place = make_place("", HF_EXCLUSIVE);

    place.key = key;
    place.key_len = (uint16_t)len;
    return place;
}

/* All are taken at once, each is busy for another, each is listed as it is. */
static void take_distinct(const char *const *keys, const size_t *lens, size_t n)
{
    party *a = party_open(LONG_MS), *b = party_open(LONG_MS);
    hf_place *places = calloc(n, sizeof *places);
    listing *list;

    EXPECT(places != NULL);
    for (size_t i = 0; i < n; i++) {
        hf_place tried = make_bytes(keys[i], lens[i]);

        places[i] = make_bytes(keys[i], lens[i]);
        must_hold(a, &places[i]);
        EXPECT_CODE(try_join(b, &tried), HF_EBUSY);
    }
    list = list_entries(b, NULL, 0, false);
    EXPECT_EQ(list->count, n);
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;

        for (size_t k = 0; k < n; k++) {
            const hf_entry_info *info = &list->rows[k].info;

            found += info->key_len == lens[i] &&
                     memcmp(info->key, keys[i], lens[i]) == 0 &&
                     SAME_ID(list->rows[k].rid, places[i].rid);
        }
        EXPECT_EQ(found, 1);
    }
    free_listing(list);
    for (size_t i = 0; i < n; i++)
        must_leave(a, &places[i]);
    EXPECT_EQ(count_entries(a), 0);
    free(places);
    party_close(a);
    party_close(b);
}

static void look_alikes(void)
{
    static const char *const keys[] = {
        "a",   "A",   "a ",  " a",   "a/",       "a/b",       "/a",
        "{a}", "%",   "%61", "a%",   "_",        "a*",        "a\n",
        "a'",  "a\"", "a;",  "a--",  "\xc3\xa4", "a\xcc\x88", "\xe4",
        "0",   "00",  "0.0", "NULL", "a\\",      "a\t"};
    enum { N = sizeof keys / sizeof *keys };
    size_t lens[N];

    for (size_t i = 0; i < N; i++)
        lens[i] = strlen(keys[i]);
    take_distinct(keys, lens, N);
}

static void every_byte(void)
{
    static char bytes[255];
    const char *keys[255];
    size_t lens[255];

    for (int i = 0; i < 255; i++) {
        bytes[i] = (char)(i + 1);
        keys[i] = &bytes[i];
        lens[i] = 1;
    }
    take_distinct(keys, lens, 255);
}

static void long_keys(void)
{
    static char text[3][HF_KEY_MAX + 1];
    const char *keys[] = {text[0], text[1], text[2], text[0]};
    size_t lens[] = {HF_KEY_MAX, HF_KEY_MAX, HF_KEY_MAX, HF_KEY_MAX - 1};

    for (int i = 0; i < HF_KEY_MAX; i++) {
        text[0][i] = text[1][i] = (char)(1 + i % 255);
        text[2][i] = 'x';
    }
    text[1][HF_KEY_MAX - 1] ^= 1; /* they differ in the last byte alone */
    take_distinct(keys, lens, 4);
}

/* The key is not NUL-terminated for the driver. */
static void key_ends_where_it_says(void)
{
    party *a = party_open(LONG_MS);
    hf_place one = make_bytes("abc", 2), two = make_bytes("abd", 2);
    hf_place three = make_bytes("abc", 3);

    must_hold(a, &one);
    EXPECT_CODE(try_join(a, &two), HF_EBUSY);
    must_hold(a, &three);
    party_close(a);
}

/* A million keys leave nothing; here as many as a test can wait for.  Used
 * again, each goes on above its last token. */
static void used_keys_leave_nothing(void)
{
    enum { KEYS = 1500 };
    static uint64_t last[KEYS];
    party *a = party_open(LONG_MS);

    for (int i = 0; i < 2 * KEYS; i++) {
        char key[32];
        hf_place place;

        snprintf(key, sizeof key, "/invoice/%d", i % KEYS);
        place = make_place(key, HF_EXCLUSIVE);
        must_hold(a, &place);
        EXPECT_RISES(a, place.token, last[i % KEYS]);
        last[i % KEYS] = place.token;
        must_leave(a, &place);
    }
    EXPECT_EQ(count_entries(a), 0);
    party_close(a);
}

const test_case name_tests[] = {TEST(look_alikes),
                                TEST(every_byte),
                                TEST(long_keys),
                                TEST(key_ends_where_it_says),
                                TEST(used_keys_leave_nothing),
                                {NULL, NULL, 0}};
