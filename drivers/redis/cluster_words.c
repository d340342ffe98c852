/* cluster_words.c - what a Redis Cluster says about slots and addresses.
 *
 * The slot of a name, the reply of CLUSTER SLOTS, the errors MOVED and ASK.
 * Pure; knows nothing of connections.  Replies are those of a server that may
 * be anything: what does not fit is passed over, and what is left empty is
 * answered as "nobody". */
#include <string.h>

#include "cluster.h"

enum { SLOTS = 16384 };

/* CRC-16/XMODEM, bit by bit: once per store. */
unsigned redis_slot_of(const char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc % SLOTS;
}

static bool set_host(redis_found *ret, const char *text, size_t len)
{
    if (len == 0 || len >= sizeof ret->host || memchr(text, '\0', len))
        return false;
    memcpy(ret->host, text, len);
    ret->host[len] = '\0';
    return true;
}

static bool set_port(redis_found *ret, int64_t port)
{
    if (port < 1 || port > UINT16_MAX)
        return false;
    ret->port = (uint16_t)port;
    return true;
}

/* [host or nil, port, id, ...]; "" and "?" are a host that is not known. */
static bool read_node(const resp *node, const char *asked, redis_found *ret)
{
    resp host = resp_item(node, 0), port = resp_item(node, 1);
    bool named =
        host.type == RESP_STRING && host.len > 0 && !resp_is(&host, "?");

    memset(ret, 0, sizeof *ret);
    return (named ? set_host(ret, host.text, host.len)
                  : set_host(ret, asked, strlen(asked))) &&
           set_port(ret, resp_int(&port, 0));
}

static void add_node(const redis_found *node, redis_found *nodes, size_t room,
                     size_t *io_count)
{
    for (size_t i = 0; i < *io_count; i++) {
        if (nodes[i].port == node->port &&
            strcmp(nodes[i].host, node->host) == 0)
            return;
    }
    if (*io_count < room)
        nodes[(*io_count)++] = *node;
}

/* Of every range its nodes from the `from`-th to the `to`-th: 2 is the owner,
 * replicas follow. */
static void collect(const resp *reply, const char *asked, int64_t from,
                    int64_t to, redis_found *nodes, size_t room,
                    size_t *io_count)
{
    resp range = resp_item(reply, 0);

    for (int64_t i = 0; i < reply->number; i++) {
        for (int64_t j = from; range.type == RESP_ARRAY && j <= to; j++) {
            resp node = resp_item(&range, (size_t)j);
            redis_found found;

            if (node.type != RESP_ARRAY)
                break;
            if (read_node(&node, asked, &found))
                add_node(&found, nodes, room, io_count);
        }
        if (i + 1 < reply->number)
            range = resp_at(range.after);
    }
}

bool redis_read_slots(const resp *reply, unsigned slot, const char *asked,
                      redis_found *ret_owner, redis_found *nodes,
                      size_t *io_count)
{
    size_t room = *io_count;
    bool found = false;
    resp range;

    *io_count = 0;
    if (reply->type != RESP_ARRAY || reply->number < 1)
        return false;
    range = resp_item(reply, 0);
    for (int64_t i = 0; i < reply->number && !found; i++) {
        resp first = resp_item(&range, 0), last = resp_item(&range, 1),
             owner = resp_item(&range, 2);

        found = range.type == RESP_ARRAY && owner.type == RESP_ARRAY &&
                resp_int(&first, SLOTS) <= (int64_t)slot &&
                resp_int(&last, -1) >= (int64_t)slot &&
                read_node(&owner, asked, ret_owner);
        if (i + 1 < reply->number)
            range = resp_at(range.after);
    }
    collect(reply, asked, 2, 2, nodes, room, io_count);
    collect(reply, asked, 3, 8, nodes, room, io_count);
    return found;
}

bool redis_read_moved(const resp *error, redis_found *ret)
{
    const char *end = error->text + error->len, *at, *colon = NULL;
    int64_t port = 0;

    memset(ret, 0, sizeof *ret);
    at = memchr(error->text, ' ', error->len);
    at = at ? memchr(at + 1, ' ', (size_t)(end - at - 1)) : NULL;
    if (!at)
        return false;
    at++;
    /* The last one: an address of IPv6 has more of them. */
    for (const char *p = at; p < end; p++)
        colon = *p == ':' ? p : colon;
    if (!colon)
        return false;
    for (const char *p = colon + 1;
         p < end && *p >= '0' && *p <= '9' && port <= UINT16_MAX; p++)
        port = port * 10 + (*p - '0');
    /* An empty host means the one that was asked, which the next find asks
     * for by itself. */
    return set_host(ret, at, (size_t)(colon - at)) && set_port(ret, port);
}
