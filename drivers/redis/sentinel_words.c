/* sentinel_words.c - what a Sentinel says about the primary that it watches.
 *
 * The replies of SENTINEL get-master-addr-by-name and SENTINEL MASTER.  Pure;
 * knows nothing of connections.  A Sentinel may be anything that answers: an
 * address must be one before it is dialled, and a number that is not said stays
 * unknown. */
#include <string.h>

#include "sentinel.h"

bool redis_read_primary(const resp *reply, redis_found *ret)
{
    resp host = resp_item(reply, 0), port = resp_item(reply, 1);
    int64_t number = resp_int(&port, 0);

    if (reply->type != RESP_ARRAY || host.type != RESP_STRING ||
        host.len == 0 || host.len >= sizeof ret->host || number < 1 ||
        number > UINT16_MAX || memchr(host.text, '\0', host.len))
        return false;
    memcpy(ret->host, host.text, host.len);
    ret->host[host.len] = '\0';
    ret->port = (uint16_t)number;
    return true;
}

/* The value of a field in SENTINEL MASTER's reply; RESP_NIL: there is none. */
static resp field_of(const resp *reply, const char *name)
{
    resp nothing = {0};
    resp at = resp_item(reply, 0);

    if (reply->type != RESP_ARRAY)
        return nothing;
    for (int64_t left = reply->number; left >= 2; left -= 2) {
        resp value = resp_at(at.after);

        if (resp_is(&at, name))
            return value;
        if (left > 3)
            at = resp_at(value.after);
    }
    return nothing;
}

/* Nobody has so many; -1: it is not said. */
static int64_t number_of(const resp *reply, const char *name)
{
    resp field = field_of(reply, name);
    int64_t number = resp_int(&field, -1);

    return number < 0 || number > INT32_MAX ? -1 : number;
}

void redis_read_watch(const resp *reply, redis_watch *ret)
{
    resp flags = field_of(reply, "flags");
    size_t len = flags.type == RESP_STRING ? flags.len : 0;
    int64_t others = number_of(reply, "num-other-sentinels");

    if (len >= sizeof ret->flags)
        len = sizeof ret->flags - 1;
    if (len > 0)
        memcpy(ret->flags, flags.text, len);
    ret->flags[len] = '\0';
    ret->sentinels = others < 0 ? -1 : others + 1;
    ret->quorum = number_of(reply, "quorum");
    ret->replicas = number_of(reply, "num-slaves");
    ret->down_after_ms = number_of(reply, "down-after-milliseconds");
}
