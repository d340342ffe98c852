/* needs.c - which test asks for what.
 *
 * The contract lets a store lack things, and says so in its caps; a test of
 * what it lacks is left out with the reason.  The table is here, and not in the
 * tests, so that one look shows how much of the contract a driver escapes by a
 * cap that it does not claim.  A name that is in no test is an error: a renamed
 * test must not lose its row. */
#include "suite.h"

/* Sessions and what comes with them: one expiry for all, news of a break. */
#define SESSIONS (UINT32_C(1) << 31)
/* Any bytes make a name; a listing shows what others hold, by its name. */
#define NAMES (UINT32_C(1) << 30)
#define LISTS (UINT32_C(1) << 29)
/* A lease is over when its time has passed, not when somebody has watched it
 * stand still for so long. */
#define CLOCKED (UINT32_C(1) << 28)
/* Thousands of queues, of which the same code has made each elsewhere. */
#define ALL_QUEUES (UINT32_C(1) << 27)
#define FIXED HF_CAP_FIXED_LEASE
#define EACH HF_CAP_EACH
#define QUEUE HF_CAP_FIFO

typedef struct need {
    const char *test;
    uint32_t caps;
} need;

static const need needs[] = {
    {"join_again_is_the_same_place", QUEUE},
    {"try_again_is_the_same_place", LISTS},
    {"try_overtakes_nobody", QUEUE | HF_CAP_SHARED},
    {"numbers_rise_for_ever", HF_CAP_TOKEN | HF_CAP_SHARED},
    {"runs_are_disjoint", QUEUE | HF_CAP_TOKEN},
    {"every_queue_of_four", QUEUE | HF_CAP_SHARED | ALL_QUEUES},
    {"queues_of_five", QUEUE | HF_CAP_SHARED | ALL_QUEUES},
    {"permits_of_two", QUEUE | HF_CAP_PERMIT | ALL_QUEUES},
    {"permits_of_three", QUEUE | HF_CAP_PERMIT | ALL_QUEUES},
    {"random_histories", QUEUE | HF_CAP_SHARED | HF_CAP_PERMIT | ALL_QUEUES},
    {"long_queue", QUEUE | ALL_QUEUES},
    {"crowd_of_readers", QUEUE | HF_CAP_SHARED},
    {"detach_leaves_everything", SESSIONS},
    {"remaining_counts_down", SESSIONS},
    {"renew_of_a_stranger_creates_nothing", SESSIONS},
    {"attach_again_promises_no_more", SESSIONS},
    {"expired_is_final", SESSIONS | CLOCKED},
    {"newcomer_drops_the_dead", HF_CAP_SHARED | CLOCKED},
    {"dead_waiter_is_passed_over", HF_CAP_SHARED},
    {"dead_grantee_is_passed_over", QUEUE},
    {"dead_reader_among_others", QUEUE | HF_CAP_SHARED},
    {"dead_permit_frees_its_place", HF_CAP_PERMIT},
    {"push_tells_the_next", HF_CAP_PUSH},
    {"push_tells_exactly_those", HF_CAP_PUSH | HF_CAP_SHARED},
    {"push_after_detach_and_evict", HF_CAP_PUSH},
    {"many_sleepers", HF_CAP_SHARED},
    {"value_of_a_join", HF_CAP_VALUE},
    {"publish_replaces", HF_CAP_VALUE},
    {"publish_on_what_is_gone", HF_CAP_VALUE},
    {"fixed_lease_outlives_its_session", FIXED},
    {"fixed_lease_is_not_renewed", FIXED},
    {"join_again_does_not_lengthen", FIXED | CLOCKED},
    {"confirm_starts_and_lengthens", FIXED},
    {"unconfirmed_dies_with_its_session", FIXED},
    {"fixed_is_left_by_the_next_session", FIXED},
    {"keep_holds_after_the_leave", QUEUE | FIXED},
    {"now_passes_on", HF_CAP_BREAK | SESSIONS},
    {"graceful_waits_for_the_leave", HF_CAP_BREAK | SESSIONS},
    {"graceful_moves_on_after_a_lease", HF_CAP_BREAK | SESSIONS},
    {"only_the_token_named", HF_CAP_BREAK | HF_CAP_SHARED},
    {"all_holders_of_the_key", HF_CAP_BREAK | HF_CAP_SHARED},
    {"evict_of_the_ownerless", HF_CAP_BREAK | FIXED},
    {"list_is_in_order", QUEUE},
    {"prefix_is_of_bytes", NAMES | LISTS},
    {"rows_tell_the_truth", HF_CAP_SHARED | HF_CAP_PERMIT},
    {"callback_ends_the_listing", HF_CAP_SHARED},
    {"list_of_many", HF_CAP_SHARED},
    {"join_without_a_session", SESSIONS},
    {"confirm_of_what_is_gone", FIXED},
    {"recheck_of_a_mixture", HF_CAP_SHARED},
    {"look_alikes", NAMES | LISTS},
    {"every_byte", NAMES | LISTS},
    {"long_keys", NAMES | LISTS},
    {"kinds_that_do_not_mix", HF_CAP_SHARED | HF_CAP_PERMIT},
    {"kinds_that_mix", HF_CAP_SHARED | HF_CAP_PERMIT},
    {"kind_of_those_who_are_left", HF_CAP_SHARED | HF_CAP_PERMIT | FIXED},
    {"permit_of_one_and_of_many", HF_CAP_PERMIT},
    {"never_more_than_places", HF_CAP_PERMIT},
    {"each_join_again", EACH},
    {"each_renewal_extends", EACH},
    {"each_renewal_says_what_is_gone", EACH},
    {"each_of_many", EACH},
    {"each_lasts_in_silence", EACH},
    {"each_expires_alone", EACH},
    {"each_break_passes_on", EACH | HF_CAP_BREAK},
    {"each_keep", EACH},
    {"each_list", EACH | LISTS},
};
enum { NEED_COUNT = sizeof needs / sizeof *needs };

static const struct {
    uint32_t cap;
    const char *why;
} reasons[] = {
    {QUEUE, "this store has no queue that others see"},
    {SESSIONS, "this store has no sessions: each hold expires by itself"},
    {EACH, "this store has sessions: holds expire together"},
    {HF_CAP_TOKEN, "this store has no tokens"},
    {HF_CAP_SHARED, "this store has no shared locks"},
    {HF_CAP_PERMIT, "this store has no permits"},
    {HF_CAP_VALUE, "this store has no values"},
    {HF_CAP_BREAK, "this store cannot break a lock"},
    {HF_CAP_PUSH, "this store does not push"},
    {FIXED, "this store has no fixed leases"},
    {NAMES, "this store takes short texts as names, not any bytes"},
    {CLOCKED, "this store watches leases instead of asking the clock"},
    {ALL_QUEUES, "this store has a sibling with the same code"},
    {LISTS, "this store does not show the names of what others hold"},
};

void skip_if_unfit(uint32_t caps)
{
    uint32_t lacks = 0;

    if ((caps & HF_CAP_EACH) == 0)
        caps |= SESSIONS;
    if (!the_target->quirks.text_names)
        caps |= NAMES;
    if (!the_target->quirks.observes)
        caps |= CLOCKED;
    if (!the_target->quirks.lists_less)
        caps |= LISTS;
    if (!the_target->quirks.has_sibling)
        caps |= ALL_QUEUES;
    for (size_t i = 0; i < NEED_COUNT; i++) {
        if (strcmp(needs[i].test, test_name()) == 0)
            lacks = needs[i].caps & ~caps;
    }
    for (size_t i = 0; lacks && i < sizeof reasons / sizeof *reasons; i++) {
        if (lacks & reasons[i].cap)
            skip_test(reasons[i].why);
    }
    EXPECT_EQ(lacks, 0);
}

bool known_needs(const test_case *cases, size_t count)
{
    bool known = true;

    for (size_t i = 0; i < NEED_COUNT; i++) {
        size_t at = 0;

        while (at < count && strcmp(cases[at].name, needs[i].test) != 0)
            at++;
        if (at == count)
            fprintf(stderr, "needs.c: no test '%s'\n", needs[i].test);
        known = known && at < count;
    }
    return known;
}
