/* format_spring.c - locks of Spring Integration's RedisLockRegistry.
 *
 * The key is REGISTRY:NAME, a string whose value is the owner's UUID.  To
 * Spring the same value means "mine, refresh it", without a count; so each
 * entry of ours is an owner of its own, and threads never meet in one.
 *
 * Registries of type PUB_SUB_LOCK sleep until a release is told, for up to a
 * minute and without a poll: ours is told on the channels of all versions, the
 * one name that all locks shared at first and the one per lock of today.  We
 * listen to both, and still poll: a SPIN_LOCK registry, which is the default,
 * tells nothing. */
#include "format.h"

/* The first word of ARGV is the registry's key. */
#define SPRING                                                                 \
    FORMAT_STRINGS                                                             \
    "local function drop(k)\n"                                                 \
    "  local gone = redis.pcall('UNLINK', k)\n"                                \
    "  if type(gone) == 'table' then redis.call('DEL', k) end\n"               \
    "  redis.pcall('PUBLISH', ARGV[1] .. '-channel', k)\n"                     \
    "  redis.pcall('PUBLISH', ARGV[1] .. '-channel:' .. k, k)\n"               \
    "end\n"

static redis_script spring_act = {.name = "spring", .text = SPRING FORMAT_ACT};
static redis_script spring_rows = {.name = "spring_rows",
                                   .text = SPRING FORMAT_ROWS};
static redis_script spring_evict = {.name = "spring_evict",
                                    .text = SPRING FORMAT_EVICT};

/* The registry's key may have characters that mean something in a pattern. */
static size_t put_pattern(char *ret, const char *registry)
{
    char *at = ret;

    for (; *registry; registry++) {
        if (strchr("*?[]\\", *registry))
            *at++ = '\\';
        *at++ = *registry;
    }
    memcpy(at, "-channel:*", 10);
    return (size_t)(at - ret) + 10;
}

static int spring_listen(hf_store *store, bool on)
{
    const format_data *data = format_of(store);
    char name[2 * FORMAT_PREFIX_MAX + 16];
    size_t len = strlen(data->extra);
    int code;

    memcpy(name, data->extra, len);
    memcpy(name + len, "-channel", 8);
    len += 8;
    if (!on) {
        redis_wire_unlisten(store->wire, name, len, false);
        redis_wire_unlisten(store->wire, name, put_pattern(name, data->extra),
                            true);
        return 0;
    }
    code = redis_wire_listen(store->wire, name, len, false);
    if (code)
        return code;
    code = redis_wire_listen(store->wire, name, put_pattern(name, data->extra),
                             true);
    if (code) {
        len = strlen(data->extra);
        memcpy(name, data->extra, len);
        memcpy(name + len, "-channel", 8);
        redis_wire_unlisten(store->wire, name, len + 8, false);
    }
    return code;
}

static const format_kind spring_kind = {.act = &spring_act,
                                        .rows = &spring_rows,
                                        .evict = &spring_evict,
                                        .dashes = true,
                                        .tail = "",
                                        .kept_before = "kept:",
                                        .kept_tail = "",
                                        .look_most = HF_MS(900),
                                        .listen = spring_listen,
                                        .told = format_told_by_text};

static int spring_open(hf_store *store, const hf_url *url, hf_error *err)
{
    const char *registry = hfd_url_option(url, "registry_key");
    char prefix[FORMAT_PREFIX_MAX + 1];
    format_data *data;
    size_t len;
    int code;

    if (!registry || !*registry)
        return hfd_error(err, HF_EURL, "redis", 0,
                         "format=spring needs 'registry_key', the registryKey "
                         "that the RedisLockRegistry was made with");
    code = format_open(store, url, &spring_kind, err);
    if (code)
        return code;
    data = format_of(store);
    code = format_copy_option(url, "registry_key", data->extra,
                              FORMAT_PREFIX_MAX / 2 - 1, err);
    if (code) {
        format_close(store);
        return code;
    }
    len = strlen(data->extra);
    memcpy(prefix, data->prefix, data->prefix_len);
    memcpy(data->prefix, data->extra, len);
    data->prefix[len++] = ':';
    memcpy(data->prefix + len, prefix, data->prefix_len);
    data->prefix_len += len;
    return 0;
}

static const char *const spring_options[] = {"prefix", "registry_key", NULL};

const redis_format redis_spring = {.name = "spring",
                                   .caps = FORMAT_CAPS,
                                   .options = spring_options,
                                   .open = spring_open,
                                   .close = format_close,
                                   .start = format_start,
                                   .message = format_message};
