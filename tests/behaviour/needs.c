/* needs.c - which behaviour test asks for what a store may lack.
 *
 * A store that is another library's layout has no queue, no tokens, no shared
 * locks; its caps say so, and a test of what it lacks is left out, with the
 * reason.  The table is here so that one look shows what is left out.  Tests
 * that are not named here run on every store. */
#include "support.h"

#include <string.h>

typedef struct need {
    const char *test;
    uint32_t caps;
} need;

static const need needs[] = {
    {"tokens_rise", HF_CAP_TOKEN},
    {"shared_inside_exclusive", HF_CAP_SHARED},
    {"shared_to_exclusive", HF_CAP_SHARED},
    {"list_facts", HF_CAP_FIFO | HF_CAP_VALUE},
    {"list_order", HF_CAP_FIFO | HF_CAP_SHARED},
    {"list_permits", HF_CAP_PERMIT},
    {"values", HF_CAP_VALUE},
    {"value_is_cut", HF_CAP_VALUE},
    {"value_limit", HF_CAP_VALUE},
    {"by_token", HF_CAP_TOKEN | HF_CAP_PERMIT},
    {"all_sharers", HF_CAP_SHARED},
    {"waiters_killed", HF_CAP_FIFO},
    {"waiter_stopped", HF_CAP_FIFO},
    {"all_at_once", HF_CAP_SHARED},
    {"tokens_survive", HF_CAP_TOKEN},
    {"with_options", HF_CAP_SHARED},
    {"n_places", HF_CAP_PERMIT},
    {"not_reentrant", HF_CAP_PERMIT},
    {"waiter_gets_place", HF_CAP_PERMIT},
    {"single_place", HF_CAP_PERMIT},
    {"other_kind", HF_CAP_PERMIT},
    {"kind_is_forgotten", HF_CAP_PERMIT},
    {"waiter_of_other_kind", HF_CAP_PERMIT},
    {"never_more", HF_CAP_PERMIT},
    {"fixed_lease_ends", HF_CAP_FIXED_LEASE},
    {"renew_extends", HF_CAP_FIXED_LEASE},
    {"fixed_lease_released", HF_CAP_FIXED_LEASE},
    {"fixed_lease_after_wait", HF_CAP_FIXED_LEASE},
    {"fixed_lease_goes_on", HF_CAP_FIXED_LEASE},
    {"at_least", HF_CAP_FIXED_LEASE},
    {"at_least_is_over", HF_CAP_FIXED_LEASE},
    {"at_least_outlives_session", HF_CAP_FIXED_LEASE},
    {"at_least_holds_back_threads", HF_CAP_FIXED_LEASE},
    {"outlives_process", HF_CAP_FIXED_LEASE},
    {"orphans", HF_CAP_FIXED_LEASE},
    /* tests/faults/scenes.c */
    {"lock_shared", HF_CAP_SHARED},
    {"lock_permit", HF_CAP_PERMIT},
    {"lock_leased", HF_CAP_FIXED_LEASE},
    {"release_kept", HF_CAP_FIXED_LEASE},
    {"lock_valued", HF_CAP_VALUE},
    {"publish", HF_CAP_VALUE},
    {"publish_start", HF_CAP_VALUE},
};

static const struct {
    uint32_t cap;
    const char *why;
} reasons[] = {
    {HF_CAP_FIFO, "this store has no queue that others see"},
    {HF_CAP_TOKEN, "this store has no tokens"},
    {HF_CAP_SHARED, "this store has no shared locks"},
    {HF_CAP_PERMIT, "this store has no permits"},
    {HF_CAP_VALUE, "this store has no values"},
    {HF_CAP_FIXED_LEASE, "this store has no fixed leases"},
};

void skip_if_unfit(uint32_t caps)
{
    uint32_t lacks = 0;

    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++) {
        if (strcmp(needs[i].test, test_name()) == 0)
            lacks = needs[i].caps & ~caps;
    }
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        if (lacks & reasons[i].cap)
            skip_test(reasons[i].why);
    }
}
