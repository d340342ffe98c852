/* info.c - what a Redis server says about itself: INFO, ROLE, TIME.
 *
 * Answers: what stands behind this name, as a text, a number, an instant?
 * Pure; knows nothing of connections.  Whoever is at the other end may be
 * anything, so every number has a bound before it is computed with, every text
 * its room, and what does not fit counts as not said: never as a guess.
 *
 * The uptime decides whether a server may have forgotten (strict): it is read
 * so that a server seems younger, never older. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

enum { MICROS = 1000000 };
#define SECONDS_MAX (INT64_C(1) << 40)

/* The value of a field, without the end of its line; NULL: there is none. */
static const char *find_field(const resp *info, const char *name,
                              size_t *ret_len)
{
    const char *at = info->text, *end;
    size_t name_len = strlen(name);

    if (info->type != RESP_STRING)
        return NULL;
    end = at + info->len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);

        if (len > name_len && at[name_len] == ':' &&
            memcmp(at, name, name_len) == 0) {
            len -= name_len + 1;
            at += name_len + 1;
            *ret_len = len > 0 && at[len - 1] == '\r' ? len - 1 : len;
            return at;
        }
        at = stop ? stop + 1 : end;
    }
    return NULL;
}

bool redis_info_text(const resp *info, const char *name, char *ret, size_t cap)
{
    size_t len = 0;
    const char *field = find_field(info, name, &len);

    if (len >= cap)
        len = cap - 1;
    if (len > 0)
        memcpy(ret, field, len);
    ret[len] = '\0';
    return field != NULL;
}

int64_t redis_info_number(const resp *info, const char *name)
{
    char text[24], *end;
    long long number;

    if (!redis_info_text(info, name, text, sizeof text) || !text[0])
        return -1;
    number = strtoll(text, &end, 10);
    return *end || number < 0 ? -1 : number;
}

int redis_info_version(const char *text)
{
    int part[3] = {0};
    unsigned at = 0;

    for (; *text && at < 3; text++) {
        if (*text == '.')
            at++;
        else if (*text >= '0' && *text <= '9' && part[at] < 100)
            part[at] = part[at] * 10 + (*text - '0');
        else
            break;
    }
    return part[0] * 10000 + part[1] * 100 + part[2];
}

bool redis_read_time(const resp *reply, int64_t *ret_us)
{
    resp seconds, micros;
    int64_t whole, part;

    if (reply->type != RESP_ARRAY || reply->number != 2)
        return false;
    seconds = resp_item(reply, 0);
    micros = resp_item(reply, 1);
    whole = resp_int(&seconds, -1);
    part = resp_int(&micros, -1);
    if (whole < 0 || whole > SECONDS_MAX || part < 0 || part >= MICROS)
        return false;
    *ret_us = whole * MICROS + part;
    return true;
}

/* ---- The handshake ---- */

/* Whole seconds that began before the question: up to one too many. */
static hf_nsec read_uptime(const resp *info)
{
    int64_t seconds = redis_info_number(info, "uptime_in_seconds");

    if (seconds > 999999999)
        seconds = 999999999;
    return seconds > 0 ? HF_MS(1000) * (seconds - 1) : 0;
}

bool redis_met_info(redis_met *met, const resp *info)
{
    char text[24];

    redis_info_text(info, "redis_mode", text, sizeof text);
    met->cluster = strcmp(text, "cluster") == 0;
    redis_info_text(info, "redis_version", text, sizeof text);
    met->server.version = redis_info_version(text);
    redis_info_text(info, "run_id", met->server.run_id,
                    sizeof met->server.run_id);
    met->server.born = hfd_now() - read_uptime(info);
    return met->server.version != 0;
}

static void copy_word(char *to, size_t room, const resp *word)
{
    size_t len = word->type == RESP_STRING ? word->len : 0;

    if (len >= room)
        len = room - 1;
    if (len > 0)
        memcpy(to, word->text, len);
    to[len] = '\0';
}

void redis_met_role(redis_met *met, const resp *role)
{
    resp word = resp_item(role, 0), of = resp_item(role, 1);

    copy_word(met->role, sizeof met->role, &word);
    if (strcmp(met->role, "slave") == 0)
        copy_word(met->of, sizeof met->of, &of);
}
