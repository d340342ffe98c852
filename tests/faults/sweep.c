/* sweep.c - fail the 1st, 2nd, 3rd ... of everything.
 *
 * For each public function and store: the n-th allocation fails, then the n-th
 * operation of the store is not executed, then its answer is lost, each with n
 * from 1 until a run meets no fault.  After every run: the code is one that
 * such a fault may cause; the hold is real or there is none; after the close
 * the store is empty, the next token is larger, and neither an allocation, a
 * descriptor nor a thread is left.
 *
 * Every round opens and closes its sessions, so that the counts compare with
 * those of a round without faults.
 *
 * HOLDFAST_TEST_SWEEP=N, for stores whose rounds are dear: the store as it is,
 * without the shim, and of the allocations every N-th, each scene beginning
 * with another one; 1 is all of them (scripts/oom.sh). */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MOST = 400 };

/* ---- Allocations ------------------------------------------------------- */

static atomic_long live_blocks;
static atomic_long drawn, fail_at; /* fail_at 0: never */
static atomic_bool hit;

static void *failing_realloc(void *p, size_t size, void *user)
{
    (void)user;
    if (size == 0) {
        atomic_fetch_sub(&live_blocks, p != NULL);
        free(p);
        return NULL;
    }
    if (atomic_load(&fail_at) != 0 &&
        atomic_fetch_add(&drawn, 1) + 1 == atomic_load(&fail_at)) {
        atomic_store(&hit, true);
        return NULL;
    }
    void *q = realloc(p, size);
    EXPECT(q != NULL);
    atomic_fetch_add(&live_blocks, p == NULL);
    return q;
}

/* The fault shim says in the log when it has struck. */
static void hear_fault(hf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    if (strstr(line, "fault: ") != NULL && strstr(line, "operation") != NULL)
        atomic_store(&hit, true);
}

/* ---- One round --------------------------------------------------------- */

typedef enum mode { NO_FAULT, ALLOCATION, NOT_EXECUTED, ANSWER_LOST } mode;
static const char *const mode_names[] = {"no fault", "allocation",
                                         "not executed", "answer lost"};
struct counts {
    long blocks;
    int fds;
};

static void arm(mode m, int n)
{
    char words[64];

    atomic_store(&hit, false);
    atomic_store(&drawn, 0);
    if (m == ALLOCATION) {
        atomic_store(&fail_at, n);
    } else if (m != NO_FAULT) {
        snprintf(words, sizeof(words), "nth=%d kind=%s", n,
                 m == NOT_EXECUTED ? "before" : "after");
        faults_set(words);
    }
}

static void disarm(void)
{
    atomic_store(&fail_at, 0);
    faults_set(NULL);
}

/* May this fault have this effect? */
static void judge_code(mode m, int code)
{
    hf_class class_ = hf_error_class(code);

    if (code == 0)
        return;
    bool fits = m == ALLOCATION
                    ? code == HF_ENOMEM || class_ == HF_CLASS_UNKNOWN
                    : m != NO_FAULT && (class_ == HF_CLASS_RETRY ||
                                        class_ == HF_CLASS_UNKNOWN);
    if (!fits || !atomic_load(&hit))
        FAIL_TEST("'%s' (%s) does not cause %s", mode_names[m],
                  atomic_load(&hit) ? "struck" : "did not strike",
                  hf_error_name(code));
}

/* Give back what is there, and see who holds what meanwhile. */
static uint64_t settle(stage *st)
{
    uint64_t token = 0;

    if (st->helping)
        EXPECT(pthread_join(st->helper, NULL) == 0);
    if (st->hold != NULL) {
        token = hf_hold_token(st->hold);
        EXPECT(token != 0);
        EXPECT_CODE(hf_hold_check(st->hold, NULL), 0);
        int code = probe(st->rival, "k");
        EXPECT(code == HF_EBUSY || code == HF_EKIND);
        EXPECT_CODE(hf_release(st->hold, NULL), 0);
    }
    if (st->theirs != NULL && !st->helping) {
        token = hf_hold_token(st->theirs);
        EXPECT_CODE(hf_hold_check(st->theirs, NULL), 0);
        give(st->theirs);
    }
    /* No ghost: what was given up leaves the queue though s is still open. */
    if (st->s != NULL && st->request == NULL)
        AWAIT(probe(st->rival, "k") == 0);
    return token;
}

static void play(const scene *sc, mode m, int n, const char *url)
{
    stage st = {.url = url};
    hf_session *rival = open_store();

    st.rival = rival;
    if (!sc->opens)
        st.s = open_url(url, 0);
    if (sc->prepare != NULL)
        sc->prepare(&st);
    arm(m, n);
    int code = sc->act(&st);
    disarm();
    judge_code(m, code);
    if (sc->opens && code != 0)
        EXPECT(st.s == NULL);
    uint64_t token = settle(&st);
    hf_close(st.s);
    await_empty(rival);
    hf_hold *hold = take(rival, "k");
    EXPECT(hf_hold_token(hold) > token);
    give(hold);
    hf_close(rival);
}

/* ---- The sweep --------------------------------------------------------- */

static struct counts count_all(void)
{
    static int most;

    if (most == 0) { /* ours, and perhaps one of a sanitizer's */
        sleep_ms(50);
        most = count_threads();
    }
    EXPECT_THREADS(most);
    return (struct counts){atomic_load(&live_blocks), count_fds()};
}

static void sweep_rounds(const scene *sc, mode m, int seed, const char *url,
                         int first, int step, const struct counts *clean)
{
    int n = first, rounds = 0;

    for (;; n += step) {
        fprintf(stderr, "%s: fault %d, seed %d\n", mode_names[m], n, seed);
        play(sc, m, n, url);
        struct counts now = count_all();
        EXPECT_EQ(now.blocks, clean->blocks);
        EXPECT_EQ(now.fds, clean->fds);
        if (!atomic_load(&hit))
            break;
        EXPECT(++rounds < ROUNDS_MOST);
    }
}

static void sweep_mode(const scene *sc, mode m, int seed,
                       const struct counts *clean)
{
    char option[700];

    scratch_path("faults", option + 11, 512);
    memcpy(option, "fault_file=", 11);
    snprintf(option + strlen(option), 32, "&fault_seed=%d", seed);
    const char *url = test_url("store", "fault+", option);
    sweep_rounds(sc, m, seed, url, 1, 1, clean);
    free((char *)url);
}

/* Which allocation a scene begins with: another one for each. */
static int begin_of(int step)
{
    unsigned sum = 0;

    for (const char *at = test_name(); *at; at++)
        sum = sum * 31 + (unsigned char)*at;
    return 1 + (int)(sum % (unsigned)step);
}

static void sweep(const scene *sc)
{
    const char *few = getenv("HOLDFAST_TEST_SWEEP");
    int step = few ? atoi(few) : 0;
    const char *url = step > 0 ? store_url() : store_url_switched();

    hf_set_alloc(failing_realloc, NULL);
    hf_set_log(hear_fault, NULL, HF_LOG_INFO);
    /* Twice without faults: whatever is made once is made by then, and the
     * second round must not add to the first. */
    play(sc, NO_FAULT, 0, url);
    struct counts clean = count_all();
    play(sc, NO_FAULT, 0, url);
    struct counts again = count_all();
    EXPECT_EQ(again.blocks, clean.blocks);
    EXPECT_EQ(again.fds, clean.fds);

    if (step > 0) {
        sweep_rounds(sc, ALLOCATION, 1, url, begin_of(step), step, &clean);
        return;
    }
    sweep_mode(sc, ALLOCATION, 1, &clean);
    /* The seed decides whether "not executed" is told or left open. */
    for (int seed = 1; seed <= 3; seed++)
        sweep_mode(sc, NOT_EXECUTED, seed, &clean);
    sweep_mode(sc, ANSWER_LOST, 1, &clean);
}

#define DEFINE_CASE(name)                                                      \
    static void sweep_##name(void)                                             \
    {                                                                          \
        sweep(&scene_##name);                                                  \
    }
SCENES(DEFINE_CASE)

#define CASE_ROW(name) {#name, sweep_##name, 300},
static const test_case cases[] = {SCENES(CASE_ROW)};
RUN_ON_TARGET("sweep", cases)
