/* seen.c - what this store has seen of other sessions, and when.
 *
 * Two questions.  "May it be dead by now?": an answer that it had so much left
 * is good until that is over, by this machine's clock from the instant the
 * question was sent; until then nobody asks again.  "Has it been silent for its
 * whole lease?" (clock=observer): the same number of renewals, seen for the
 * lease and a guard longer from the first answer on; no clock of the database
 * is compared.
 *
 * A fixed table: what falls out of it is asked again, and an observer begins to
 * count anew, which errs towards waiting.  In the same way an observer sees
 * entries that end by their own time: by rid, their text being the version. */
#include <string.h>

#include "native.h"

/* Called with the mutex held; NULL: never seen. */
static sql_seen *find_seen(sql_native_data *data, const hf_id *id)
{
    for (size_t i = 0; i < SQL_SEEN; i++) {
        if (data->seen[i].used != 0 && sql_same_id(&data->seen[i].id, id))
            return &data->seen[i];
    }
    return NULL;
}

/* The one that nobody asked for the longest time. */
static sql_seen *oldest_seen(sql_native_data *data)
{
    sql_seen *oldest = &data->seen[0];

    for (size_t i = 1; i < SQL_SEEN && oldest->used != 0; i++) {
        if (data->seen[i].used < oldest->used)
            oldest = &data->seen[i];
    }
    return oldest;
}

int64_t sql_seen_left(sql_native_data *data, const hf_id *id)
{
    hf_nsec now = hfd_now(), left = 0;
    sql_seen *seen;

    pthread_mutex_lock(&data->mu);
    seen = find_seen(data, id);
    if (seen) {
        seen->used = now;
        left = seen->until - now;
    }
    pthread_mutex_unlock(&data->mu);
    return left > 0 ? left / 1000 + 1 : 0;
}

void sql_seen_note(hf_store *store, const hf_id *id, int64_t version,
                   int64_t ttl_us, int64_t left_us, hf_nsec sent)
{
    sql_native_data *data = sql_native_of(store);
    hf_nsec now = hfd_now();
    /* A clock that runs one percent fast there or slow here, and a timer. */
    hf_nsec term = (ttl_us + ttl_us / 50) * 1000 + HF_MS(10);
    sql_seen *seen;

    pthread_mutex_lock(&data->mu);
    seen = find_seen(data, id);
    if (!seen) {
        seen = oldest_seen(data);
        *seen = (sql_seen){.id = *id, .version = ~version};
    }
    seen->used = now;
    if (!store->observer)
        seen->until = sent + left_us * 1000;
    else if (seen->version != version)
        seen->until = now + term;
    seen->version = version;
    pthread_mutex_unlock(&data->mu);
}

void sql_seen_forget(sql_native_data *data, const hf_id *id)
{
    sql_seen *seen;

    pthread_mutex_lock(&data->mu);
    seen = find_seen(data, id);
    if (seen)
        *seen = (sql_seen){.used = 0};
    pthread_mutex_unlock(&data->mu);
}

/* ---- What stands of our own --------------------------------------------- */

/* Called with the mutex held; SQL_STANDING: not known. */
static size_t find_standing(const sql_native_data *data, const hf_id *sid)
{
    size_t i = 0;

    while (i < SQL_STANDING && !sql_same_id(&data->standing[i].sid, sid))
        i++;
    return i;
}

void sql_standing_begin(sql_native_data *data, const hf_id *sid)
{
    pthread_mutex_lock(&data->mu);
    if (find_standing(data, sid) == SQL_STANDING) {
        unsigned at = data->standing_next++ % SQL_STANDING;

        data->standing[at].sid = *sid;
        data->standing[at].count = 0;
    }
    pthread_mutex_unlock(&data->mu);
}

void sql_standing_add(sql_native_data *data, const hf_id *sid, int more)
{
    size_t at;

    pthread_mutex_lock(&data->mu);
    at = find_standing(data, sid);
    if (at < SQL_STANDING)
        data->standing[at].count += more;
    pthread_mutex_unlock(&data->mu);
}

bool sql_may_stand(sql_native_data *data, const hf_id *sid)
{
    size_t at;
    bool may;

    pthread_mutex_lock(&data->mu);
    at = find_standing(data, sid);
    may = at == SQL_STANDING || data->standing[at].count > 0;
    pthread_mutex_unlock(&data->mu);
    return may;
}
