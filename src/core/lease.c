/* lease.c - the lease of a session, as its owner believes in it.
 *
 * Event in, state and next wake-up out; knows nothing of stores, threads or
 * clocks (instants are given), so lease_test.c walks every path.
 *
 *            renewed in time                 renewed, sent after the doubt
 *           .---------------.               .--------------------.
 *           v               |               v                    |
 *   began: HELD ------------'-- failed --> DOUBTFUL ------------'
 *           |                                |
 *           '--- deadline - stop_margin -----'---> LOST (a one-way door)
 *                or the store said so
 *
 * Why it keeps G1: the deadline is counted from the instant the request was
 * *sent*, with what the store says is left, less a guard for drift.  The store
 * started counting after that instant, so it expires us later than we stop;
 * `stop_margin` is the time we leave ourselves to stop in.  A late reply
 * carries an old `sent` and so can't lengthen anything beyond the truth. */
#include "core/lease.h"

#include "base/clock.h"
#include "base/error.h"
#include "core/mutant.h"

/* How far the wall clock is ahead of ours.  Ours is read first here and last in
 * a look: a pause between two readings must not look like a jump. */
static int64_t wall_offset_us(void)
{
    hf_nsec now = hfd_now();

    return hfd_realtime_us() - now / 1000;
}

int hf__lease_init(hf__lease *lease, int64_t lease_ms, hf_error *err)
{
    hf_nsec ttl = HF_MS(lease_ms);

    if (lease_ms < 1000 || lease_ms > INT64_C(86400) * 1000)
        return hf__error(err, HF_EINVAL,
                         "lease_ms is %lld: a session's lease is from 1000 ms "
                         "to a day",
                         (long long)lease_ms);
    *lease = (hf__lease){
        .ttl = ttl,
        .renew_every = ttl / 3,
        .attempt = ttl / 6 < HF_MS(2000) ? ttl / 6 : HF_MS(2000),
        .stop_margin = ttl / 10 > HF_MS(250) ? ttl / 10 : HF_MS(250),
    };
    /* Two attempts must fit between a renewal that is due and the loss. */
    if (lease->renew_every + 2 * lease->attempt >
        ttl - lease->stop_margin - hf__lease_guard(ttl))
        return hf__error(err, HF_EINVAL,
                         "lease_ms %lld leaves no time to renew",
                         (long long)lease_ms);
    lease->real_minus_boot_us = wall_offset_us();
    return 0;
}

hf_nsec hf__lease_guard(hf_nsec remaining)
{
    return remaining / 100 + HF_MS(10);
}

static hf_nsec deadline_of(hf_nsec sent, hf_nsec remaining)
{
    if (HF_MUTANT(LEASE_FROM_REPLY))
        sent = hfd_now();
    return sent + remaining - hf__lease_guard(remaining);
}

void hf__lease_began(hf__lease *lease, hf_nsec sent, hf_nsec remaining)
{
    lease->state = HF_HELD;
    lease->reason = 0;
    lease->failures = 0;
    lease->clock_doubt = false;
    lease->unaudited = false;
    lease->renewed_at = sent;
    lease->deadline = deadline_of(sent, remaining);
    lease->next_renew = sent + lease->renew_every;
    hf__lease_look_at_clocks(lease);
    if (lease->jump_at > sent && !lease->clock_doubt) {
        /* Noticed while the answer was on its way, before there was a lease
         * to doubt. */
        lease->clock_doubt = true;
        hf__lease_doubt(lease, lease->jump_at, HF_EUNKNOWN);
        lease->next_renew = lease->jump_at;
    }
}

void hf__lease_renewed(hf__lease *lease, hf_nsec sent, hf_nsec remaining)
{
    hf_nsec deadline = deadline_of(sent, remaining);

    hf__lease_look_at_clocks(lease);
    if (lease->state != HF_HELD && lease->state != HF_DOUBTFUL) {
        if (!(HF_MUTANT(RENEW_AFTER_LOSS) && lease->state == HF_LOST))
            return;
        lease->state = HF_DOUBTFUL;
    }
    /* One from before a step of the store's clock counts what is gone. */
    if (deadline > lease->deadline &&
        !(lease->clock_doubt && sent < lease->store_sent))
        lease->deadline = deadline;
    if (lease->state == HF_DOUBTFUL && sent < lease->doubt_at &&
        !HF_MUTANT(DOUBT_LIFTED_EARLY))
        return; /* it says nothing about what made us doubt */
    lease->failures = 0;
    lease->clock_doubt = false;
    lease->next_renew = sent + lease->renew_every;
    if (sent > lease->renewed_at)
        lease->renewed_at = sent;
    if (lease->unaudited)
        return; /* the session lives; whether the holds do is not known yet */
    lease->state = HF_HELD;
    lease->reason = 0;
}

void hf__lease_doubt(hf__lease *lease, hf_nsec now, int reason)
{
    hf_nsec pause = HF_MS(50) << (lease->failures < 4 ? lease->failures : 4);

    if (lease->state != HF_HELD && lease->state != HF_DOUBTFUL)
        return;
    if (pause > HF_MS(500))
        pause = HF_MS(500);
    lease->state = HF_DOUBTFUL;
    lease->reason = reason;
    lease->doubt_at = now;
    /* Full jitter, but the first try goes out at once. */
    lease->next_renew = now;
    if (lease->failures > 0)
        lease->next_renew += (hf_nsec)hf__random_below((uint64_t)pause) + 1;
    lease->failures++;
}

void hf__lease_memory_doubt(hf__lease *lease, hf_nsec now, int reason)
{
    hf__lease_doubt(lease, now, reason);
    lease->unaudited = lease->state == HF_DOUBTFUL;
}

void hf__lease_audited(hf__lease *lease)
{
    lease->unaudited = false;
    if (lease->state == HF_DOUBTFUL && lease->renewed_at >= lease->doubt_at) {
        lease->state = HF_HELD;
        lease->reason = 0;
    }
}

void hf__lease_lost(hf__lease *lease, int reason)
{
    if (lease->state == HF_HELD || lease->state == HF_DOUBTFUL) {
        lease->state = HF_LOST;
        lease->reason = reason;
    }
}

void hf__lease_look_at_clocks(hf__lease *lease)
{
    int64_t real_us = hfd_realtime_us();
    hf_nsec now = hfd_now();
    int64_t ahead_us = real_us - now / 1000 - lease->real_minus_boot_us;

    if (ahead_us < 0)
        lease->real_minus_boot_us += ahead_us; /* set back: means nothing */
    if (ahead_us * 1000 <= hf__lease_guard(lease->ttl))
        return;
    lease->real_minus_boot_us += ahead_us; /* the next jump is another one */
    lease->jump_at = now;
    if (lease->state == HF_HELD || lease->state == HF_DOUBTFUL) {
        lease->clock_doubt = true;
        hf__lease_doubt(lease, now, HF_EUNKNOWN);
        lease->next_renew = now;
    }
}

hf_nsec hf__lease_store_clock(hf__lease *lease, hf_nsec sent, hf_nsec now,
                              int64_t store_us)
{
    const int64_t most_us = INT64_C(1) << 52; /* the year 2112 */
    hf_nsec slack = hf__lease_guard(lease->ttl) + (now - sent);
    bool first = lease->store_sent == 0;
    int64_t offset_us;
    hf_nsec jump;

    if (store_us <= 0 || store_us > most_us || now < sent ||
        sent < lease->store_sent)
        return 0; /* no time, or a later question was answered before */
    /* It was read between the two instants: in the middle, give or take. */
    offset_us = store_us - (sent + (now - sent) / 2) / 1000;
    jump = (offset_us - lease->store_minus_boot_us) * 1000;
    slack += lease->store_trip;
    lease->store_sent = sent;
    if (!first && jump <= slack && jump >= -slack) {
        /* A slow answer may hide a jump: what was known before it stays, and
           the next quick one tells. */
        if (now - sent > lease->store_trip + hf__lease_guard(lease->ttl))
            return 0;
        jump = 0;
    }
    lease->store_minus_boot_us = offset_us;
    lease->store_trip = now - sent;
    if (first || jump == 0)
        return 0;
    if (jump > 0 && (lease->state == HF_HELD || lease->state == HF_DOUBTFUL)) {
        lease->deadline -= jump;
        if (lease->deadline < now)
            lease->deadline = now;
        lease->jump_at = now;
        lease->clock_doubt = true;
        hf__lease_doubt(lease, now, HF_EUNKNOWN);
        lease->next_renew = now;
    }
    return jump;
}

hf_nsec hf__lease_lost_at(const hf__lease *lease)
{
    if (lease->state != HF_HELD && lease->state != HF_DOUBTFUL)
        return HF_NEVER;
    if (HF_MUTANT(LOST_ONLY_BY_STORE))
        return HF_NEVER;
    if (HF_MUTANT(NO_STOP_MARGIN))
        return lease->deadline + hf__lease_guard(lease->ttl) + HF_MS(20);
    return lease->deadline - lease->stop_margin;
}

hf_state hf__lease_state(hf__lease *lease, hf_nsec now)
{
    if (now >= hf__lease_lost_at(lease))
        hf__lease_lost(lease, HF_EEXPIRED);
    return lease->state;
}

hf_nsec hf__lease_next(const hf__lease *lease)
{
    hf_nsec lost = hf__lease_lost_at(lease);

    if (lease->state != HF_HELD && lease->state != HF_DOUBTFUL)
        return HF_NEVER;
    return lease->next_renew < lost ? lease->next_renew : lost;
}
