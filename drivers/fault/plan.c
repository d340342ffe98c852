/* plan.c - which operations fail, and how.
 *
 * The plan comes from the URL's fault_ options and, live, from a file of
 * `name=value` words (the same names without fault_), which is read again
 * whenever it changed; a word that makes no sense there is logged and left
 * out.  Chance comes from a seed, so that one thread's run repeats exactly.
 *
 * Pure but for that file; fault.c holds a mutex around all of it. */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../trace/shim.h"

const char *const fault_options[] = {
    "fault_seed",      "fault_nth",  "fault_kind",
    "fault_rate",      "fault_ops",  "fault_delay_ms",
    "fault_drop_push", "fault_file", NULL};

enum { ALL_OPS = (1 << (HF_OP_PROBE + 1)) - 2 };

static bool parse_number(const char *text, int64_t max, int64_t *ret)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0 || value > max)
        return false;
    *ret = value;
    return true;
}

static bool parse_kind(const char *text, fault_kind *ret)
{
    static const char *const names[] = {"none", "before", "after", "both",
                                        "slow"};

    for (int i = 0; i < 5; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (fault_kind)i;
            return true;
        }
    }
    return false;
}

static bool parse_ops(const char *text, uint32_t *ret)
{
    uint32_t ops = 0;

    while (*text) {
        size_t len = strcspn(text, ",");
        uint32_t bit = 0;

        for (int kind = HF_OP_ATTACH; kind <= HF_OP_PROBE; kind++) {
            const char *name = shim_op_name((hf_op_kind)kind);

            if (strlen(name) == len && strncmp(name, text, len) == 0)
                bit = UINT32_C(1) << kind;
        }
        if (bit == 0)
            return false;
        ops |= bit;
        text += len + (text[len] == ',');
    }
    *ret = ops;
    return ops != 0;
}

/* One word; false: unknown or nonsense. */
static bool set_word(fault_plan *plan, const char *name, const char *value)
{
    int64_t number = 0;

    if (strcmp(name, "kind") == 0)
        return parse_kind(value, &plan->kind);
    if (strcmp(name, "ops") == 0)
        return parse_ops(value, &plan->ops);
    if (strcmp(name, "nth") == 0 && parse_number(value, INT64_MAX, &number)) {
        plan->nth = (uint64_t)number;
        return true;
    }
    if (strcmp(name, "rate") == 0 && parse_number(value, 100, &number)) {
        plan->rate = (uint32_t)number;
        return true;
    }
    if (strcmp(name, "drop_push") == 0 && parse_number(value, 100, &number)) {
        plan->drop_push = (uint32_t)number;
        return true;
    }
    return strcmp(name, "delay_ms") == 0 &&
           parse_number(value, 3600000, &plan->delay_ms);
}

int fault_source_init(fault_source *source, const hf_url *url, hf_error *err)
{
    const char *file = hfd_url_option(url, "fault_file");
    int64_t seed = 1;
    int code = hfd_url_number(url, "fault_seed", 0, INT64_MAX, &seed, err);

    if (code != 0)
        return code;
    source->base = (fault_plan){.kind = FAULT_BEFORE, .ops = ALL_OPS};
    source->random = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (const char *const *name = fault_options; *name; name++) {
        const char *value = hfd_url_option(url, *name);

        if (!value || strcmp(*name, "fault_seed") == 0 ||
            strcmp(*name, "fault_file") == 0)
            continue;
        if (!set_word(&source->base, *name + strlen("fault_"), value))
            return hfd_error(err, HF_EURL, "fault", 0,
                             "option '%s=%.60s' makes no sense: see the page "
                             "of the fault driver for its words",
                             *name, value);
    }
    source->plan = source->base;
    if (file && snprintf(source->path, sizeof source->path, "%s", file) >=
                    (int)sizeof source->path)
        return hfd_error(err, HF_EURL, "fault", 0,
                         "option 'fault_file' is longer than %zu bytes",
                         sizeof source->path - 1);
    return 0;
}

/* ---- The file ----------------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void read_words(fault_source *source)
{
    char text[1024] = "", *save = NULL;
    int fd = open(source->path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    for (char *word = strtok_r(text, " \t\r\n", &save); word;
         word = strtok_r(NULL, " \t\r\n", &save)) {
        char *equals = strchr(word, '=');

        if (equals)
            *equals = '\0';
        if (!equals || !set_word(&source->plan, word, equals + 1))
            hfd_log(HF_LOG_WARN,
                    "fault: '%.40s' in '%.100s' makes no sense and is left out",
                    word, source->path);
    }
}

static void refresh_plan(fault_source *source)
{
    struct stat now = {.st_ino = 0};

    if (source->path[0] == '\0')
        return;
    if (stat(source->path, &now) != 0)
        now = (struct stat){.st_ino = 0};
    if (same_file(&now, &source->seen))
        return;
    source->seen = now;
    source->plan = source->base;
    source->count = 0;
    if (now.st_ino != 0)
        read_words(source);
}

/* ---- Chance ------------------------------------------------------------- */

static uint64_t draw_random(fault_source *source)
{
    uint64_t x = source->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

fault_kind fault_source_draw(fault_source *source, hf_op_kind op,
                             bool *ret_unknown)
{
    const fault_plan *plan = &source->plan;
    uint64_t chance;

    refresh_plan(source);
    if (!(plan->ops & (UINT32_C(1) << op)))
        return FAULT_NONE;
    source->count++;
    chance = draw_random(source);
    if (source->count != plan->nth && chance % 100 >= plan->rate)
        return FAULT_NONE;
    *ret_unknown = (chance >> 32) & 1;
    if (plan->kind == FAULT_BOTH)
        return (chance >> 33) & 1 ? FAULT_AFTER : FAULT_BEFORE;
    return plan->kind;
}

bool fault_source_drop_push(fault_source *source)
{
    refresh_plan(source);
    return draw_random(source) % 100 < source->plan.drop_push;
}
