/* scenes.c - each public function as a scene for the fault sweep.
 *
 * An `act` makes the one call and answers its code, or 0 where the answer is
 * the one that the scene is about (busy, timed out, cancelled).  It leaves in
 * the stage what it got; sweep.c judges and cleans up. */
#include "stage.h"

#include <string.h>

static const hf_lock_options waits = {HF_LOCK_OPTIONS, .wait_ms = PATIENCE_MS};
static const hf_lock_options soon = {HF_LOCK_OPTIONS, .wait_ms = 30};

/* ---- What comes before ------------------------------------------------- */

static void hold_it(stage *st)
{
    st->hold = take(st->s, "k");
}

/* By nobody in particular, as an event loop does. */
static void hold_loose(stage *st)
{
    st->hold = take_with(
        st->s, "k", (hf_lock_options){HF_LOCK_OPTIONS, .owner = HF_OWNER_HOLD});
}

static void rival_holds(stage *st)
{
    st->theirs = take(st->rival, "k");
}

static void *release_theirs(void *arg)
{
    stage *st = arg;

    sleep_ms(10);
    /* Memory may run out here as well; it is the rival's trouble then. */
    int code = hf_release(st->theirs, NULL);
    EXPECT(code == 0 || code == HF_ENOMEM || code == HF_EUNKNOWN);
    return NULL;
}

/* The rival holds it and lets go a little later. */
static void rival_lets_go(stage *st)
{
    st->theirs =
        take_with(st->rival, "k",
                  (hf_lock_options){HF_LOCK_OPTIONS, .owner = HF_OWNER_HOLD});
    st->helping = true;
    EXPECT(pthread_create(&st->helper, NULL, release_theirs, st) == 0);
}

/* Until this session waits, as far as the other one can see it. */
static void see_waiting(hf_session *who, hf_session *other)
{
    if (store_has(HF_CAP_FIFO))
        await_waiting(other, "k", 1);
    else
        await_waiters(who, 1);
}

static void start_waiting(stage *st)
{
    rival_holds(st);
    EXPECT_CODE(hf_lock_start(st->s, "k", &waits, st, &st->request, NULL), 0);
    see_waiting(st->s, st->rival);
}

/* ---- Helpers of acts --------------------------------------------------- */

static int expect_answer(int code, int wanted)
{
    return code == wanted ? 0 : code;
}

/* Wait for the one result of a started call. */
static int collect(stage *st, hf_result_kind kind)
{
    hf_result result;
    int64_t until = now_ms() + PATIENCE_MS;
    int n;

    while ((n = hf_collect(st->s, &result)) == 0) {
        int fd = hf_session_fd(st->s);
        if (fd >= 0)
            is_readable(fd, 20);
        else
            sleep_ms(5);
        if (now_ms() > until)
            FAIL_TEST("a started request was never collected");
    }
    EXPECT_EQ(n, 1);
    EXPECT(result.kind == kind && result.user == st);
    EXPECT(result.request == st->request);
    if (kind == HF_RESULT_LOCK) {
        EXPECT((result.hold != NULL) == (result.error.code == 0));
        st->hold = result.hold;
    }
    return result.error.code;
}

/* ---- Sessions ---------------------------------------------------------- */

static int act_open(stage *st)
{
    return hf_open(&st->s, st->url, NULL, NULL);
}
const scene scene_open = {.act = act_open, .opens = true};

static int act_close(stage *st)
{
    hf_close(st->s);
    st->s = NULL;
    st->hold = NULL;
    return 0;
}
const scene scene_close = {hold_it, act_close, false};

static void prepare_busy(stage *st)
{
    start_waiting(st);
    take(st->s, "other");
    take_with(st->s, "permit", options_of(HF_PERMIT, 2));
}
const scene scene_close_busy = {prepare_busy, act_close, false};

/* ---- Taking ------------------------------------------------------------ */

static int act_lock(stage *st)
{
    return hf_lock(st->s, "k", &waits, &st->hold, NULL);
}
const scene scene_lock = {NULL, act_lock, false};
const scene scene_lock_waits = {rival_lets_go, act_lock, false};

static int act_times_out(stage *st)
{
    return expect_answer(hf_lock(st->s, "k", &soon, &st->hold, NULL),
                         HF_ETIMEDOUT);
}
const scene scene_lock_times_out = {rival_holds, act_times_out, false};

static int act_try(stage *st)
{
    return hf_try_lock(st->s, "k", NULL, &st->hold, NULL);
}
const scene scene_try_lock = {NULL, act_try, false};

static int act_try_busy(stage *st)
{
    return expect_answer(act_try(st), HF_EBUSY);
}
const scene scene_try_busy = {rival_holds, act_try_busy, false};

static int act_shared(stage *st)
{
    return hf_lock_shared(st->s, "k", &waits, &st->hold, NULL);
}
const scene scene_lock_shared = {NULL, act_shared, false};

static int act_permit(stage *st)
{
    return hf_lock_permit(st->s, "k", 1, &waits, &st->hold, NULL);
}
const scene scene_lock_permit = {NULL, act_permit, false};

static int act_leased(stage *st)
{
    hf_lock_options opt = waits;

    opt.lease_ms = 5000;
    return hf_lock(st->s, "k", &opt, &st->hold, NULL);
}
const scene scene_lock_leased = {rival_lets_go, act_leased, false};

static int act_valued(stage *st)
{
    hf_lock_options opt = waits;

    opt.value = "some value";
    opt.value_len = 10;
    return hf_lock(st->s, "k", &opt, &st->hold, NULL);
}
const scene scene_lock_valued = {NULL, act_valued, false};

static int act_reenter(stage *st)
{
    hf_hold *again = NULL;
    int code = hf_lock(st->s, "k", &waits, &again, NULL);

    if (code == 0) {
        EXPECT(hf_hold_token(again) == hf_hold_token(st->hold));
        code = hf_release(again, NULL);
    }
    EXPECT_CODE(hf_hold_check(st->hold, NULL), 0);
    return code;
}
const scene scene_reenter = {hold_it, act_reenter, false};

static int act_with_lock(stage *st)
{
    hf_error err = {0};
    int ran = 0;

    hf_with_lock(st->s, &waits, &err, "%c", 'k') {
        ran++;
        EXPECT_CODE(hf_hold_check(hf_held, NULL), 0);
    }
    EXPECT(ran <= 1 && (ran == 1 || err.code != 0));
    return err.code;
}
const scene scene_with_lock = {NULL, act_with_lock, false};

/* ---- Holding and giving back ------------------------------------------- */

static int act_release(stage *st)
{
    int code = hf_release(st->hold, NULL);

    /* Spent, whatever the answer was. */
    EXPECT_CODE(hf_release(st->hold, NULL), HF_ENOTHELD);
    st->hold = NULL;
    return code;
}
const scene scene_release = {hold_it, act_release, false};

static waiter woken;

static void prepare_wakes(stage *st)
{
    hold_it(st);
    waiter_start(&woken, st->rival, "k", waits);
    see_waiting(st->rival, st->s);
}

/* The rival waits: a lost wake-up may cost seconds, never for ever. */
static int act_release_wakes(stage *st)
{
    int code = act_release(st);
    int theirs = waiter_finish(&woken);

    if (theirs != HF_ENOMEM)
        EXPECT_CODE(theirs, 0);
    return code;
}
const scene scene_release_wakes = {prepare_wakes, act_release_wakes, false};

static void hold_kept(stage *st)
{
    st->hold = take_with(st->s, "k",
                         (hf_lock_options){HF_LOCK_OPTIONS, .at_least_ms = 60});
}
const scene scene_release_kept = {hold_kept, act_release, false};

static int act_renew(stage *st)
{
    return hf_renew(st->hold, NULL);
}
const scene scene_renew = {hold_it, act_renew, false};

static int act_publish(stage *st)
{
    return hf_publish(st->hold, "a new value", 11, NULL);
}
const scene scene_publish = {hold_it, act_publish, false};

static int act_facts(stage *st)
{
    char buf[16];
    size_t len;
    hf_stats stats;
    int fd = hf_hold_fd(st->hold);

    EXPECT_CODE(hf_hold_check(st->hold, NULL), 0);
    EXPECT(hf_hold_token(st->hold) != 0 && hf_hold_state(st->hold) == HF_HELD);
    if (store_has(HF_CAP_VALUE))
        EXPECT_CODE(hf_hold_value(st->hold, buf, sizeof(buf), &len), 0);
    EXPECT_CODE(hf_session_stats(st->s, &stats), 0);
    if (fd < 0)
        return fd;
    EXPECT(!is_readable(fd, 0));
    return 0;
}
const scene scene_hold_facts = {hold_it, act_facts, false};

/* ---- Event loops ------------------------------------------------------- */

static int act_start(stage *st)
{
    int code = hf_lock_start(st->s, "k", &waits, st, &st->request, NULL);

    return code != 0 ? code : collect(st, HF_RESULT_LOCK);
}
const scene scene_lock_start = {NULL, act_start, false};
const scene scene_lock_start_waits = {rival_lets_go, act_start, false};

static int act_release_start(stage *st)
{
    int code = hf_release_start(st->hold, st, &st->request, NULL);

    if (code != 0)
        return code; /* nothing was started: still held */
    code = collect(st, HF_RESULT_RELEASE);
    st->hold = NULL;
    return code;
}
const scene scene_release_start = {hold_loose, act_release_start, false};

static int act_renew_start(stage *st)
{
    int code = hf_renew_start(st->hold, st, &st->request, NULL);

    return code != 0 ? code : collect(st, HF_RESULT_RENEW);
}
const scene scene_renew_start = {hold_loose, act_renew_start, false};

static int act_publish_start(stage *st)
{
    int code = hf_publish_start(st->hold, "value", 5, st, &st->request, NULL);

    return code != 0 ? code : collect(st, HF_RESULT_PUBLISH);
}
const scene scene_publish_start = {hold_loose, act_publish_start, false};

static int act_cancel(stage *st)
{
    int code = hf_cancel(st->request, NULL);

    if (code != 0) { /* not even asked: it goes on waiting */
        EXPECT_CODE(code, HF_ENOMEM);
        return 0;
    }
    return expect_answer(collect(st, HF_RESULT_LOCK), HF_ECANCELED);
}
const scene scene_cancel = {start_waiting, act_cancel, false};

static waiter called_off;

static void prepare_owner_waits(stage *st)
{
    rival_holds(st);
    waiter_start(&called_off, st->s, "k", waits);
    see_waiting(st->s, st->rival);
}

static int act_cancel_owner(stage *st)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (!waiter_answered(&called_off)) {
        int n = hf_cancel_owner(st->s, atomic_load(&called_off.self));
        EXPECT(n >= 0 || n == HF_ENOMEM);
        EXPECT(now_ms() < until);
        sleep_ms(2);
    }
    return expect_answer(waiter_finish(&called_off), HF_ECANCELED);
}
const scene scene_cancel_owner = {prepare_owner_waits, act_cancel_owner, false};

/* ---- Operators --------------------------------------------------------- */

static int count_row(const hf_entry_info *entry, void *user)
{
    EXPECT(entry->granted && strcmp(entry->key, "k") == 0);
    ++*(int *)user;
    return 0;
}

static int act_list(stage *st)
{
    int rows = 0;
    int code = hf_list(st->s, NULL, count_row, &rows, NULL);

    EXPECT(code != 0 || rows == 1);
    return code;
}
const scene scene_list = {rival_holds, act_list, false};

/* Broken or not, the sweep finds the rival's hold in either state. */
static int act_break(stage *st)
{
    hf_break_options opt = {HF_BREAK_OPTIONS, .now = true};
    uint32_t broken = 0;
    int code = hf_break(st->s, "k", &opt, &broken, NULL);

    if (code == HF_ENOTSUP)
        return 0;
    EXPECT(code != 0 || broken <= 1);
    int theirs = hf_release(st->theirs, NULL);
    EXPECT(theirs == 0 || theirs == broken_code() || theirs == HF_ENOMEM);
    st->theirs = NULL;
    return code;
}
const scene scene_break_now = {rival_holds, act_break, false};

static void ignore_finding(hf_level level, const char *name, const char *text,
                           void *user)
{
    (void)user;
    EXPECT(level <= HF_FAIL && name[0] != '\0' && text[0] != '\0');
}

static int act_doctor(stage *st)
{
    return hf_doctor(st->s, ignore_finding, NULL, NULL);
}
const scene scene_doctor = {NULL, act_doctor, false};
