/* default_url.c - hf_open without a URL.
 *
 * Checks that NULL takes $HOLDFAST_URL, or else a file in the user's state
 * folder ($XDG_STATE_HOME, or .local/state in the home folder), which is made
 * for the user alone; and that two programs which say nothing meet there. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static hf_session *open_default(void)
{
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, NULL, NULL, &err), err);
    return s;
}

static void from_environment(void)
{
    EXPECT(setenv("HOLDFAST_URL", store_url(), 1) == 0);
    hf_session *a = open_default(), *b = open_store();
    hf_hold *hold = take(a, "k");

    EXPECT_CODE(probe(b, "k"), HF_EBUSY);
    EXPECT_HAS(hf_session_url(a), "store.db");
    give(hold);
    hf_close(a);
    hf_close(b);
}

static void wrong_environment(void)
{
    hf_session *s = NULL;
    hf_error err = {0};

    EXPECT(setenv("HOLDFAST_URL", "nonsense", 1) == 0);
    EXPECT_CODE(hf_open(&s, NULL, NULL, &err), HF_EURL);
    EXPECT(err.text[0] != '\0' && s == NULL);
}

/* An explicit URL is stronger than the environment. */
static void explicit_wins(void)
{
    EXPECT(setenv("HOLDFAST_URL", "nosuchstore:x", 1) == 0);
    hf_session *s = open_store();

    EXPECT_HAS(hf_session_url(s), "store.db");
    hf_close(s);
}

/* Both sessions meet in one file below `root`, which only the user reads. */
static void expect_state_file(const char *root)
{
    struct stat st;
    char folder[600];

    hf_session *a = open_default(), *b = open_default();
    hf_hold *hold = take(a, "k");
    EXPECT_CODE(probe(b, "k"), HF_EBUSY);
    give(hold);
    EXPECT_HAS(hf_session_url(a), "sqlite:");
    EXPECT_HAS(hf_session_url(a), root);
    const char *path = strstr(hf_session_url(a), root);
    EXPECT(stat(path, &st) == 0 && S_ISREG(st.st_mode));
    EXPECT_EQ(st.st_mode & 0777, 0600);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path),
             path);
    EXPECT(stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
    EXPECT_EQ(st.st_mode & 0777, 0700);
    hf_close(a);
    hf_close(b);
}

static void state_folder(void)
{
    char state[600];

    unsetenv("HOLDFAST_URL");
    scratch_path("state", state, sizeof(state));
    EXPECT(setenv("XDG_STATE_HOME", state, 1) == 0);
    expect_state_file(state);
}

static void home_folder(void)
{
    char home[600], state[700];

    unsetenv("HOLDFAST_URL");
    unsetenv("XDG_STATE_HOME");
    scratch_path("home", home, sizeof(home));
    EXPECT(mkdir(home, 0755) == 0);
    EXPECT(setenv("HOME", home, 1) == 0);
    snprintf(state, sizeof(state), "%s/.local/state", home);
    expect_state_file(state);
}

static const test_case cases[] = {
    TEST(from_environment), TEST(wrong_environment), TEST(explicit_wins),
    TEST(state_folder),     TEST(home_folder),
};
RUN_ON_TARGET("default_url", cases)
