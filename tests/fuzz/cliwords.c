/* cliwords.c - any words as a command line, and any bytes as a name that is
 * shown.
 *
 * The words are read as `run` and `hold` read theirs, with every option that
 * any command has, and nothing is done with them.  Promises: reading ends, and
 * gives out nothing but words of the line; a time and a number lie within their
 * bounds; whoever is refused is told why in one line without control bytes, and
 * who is not is told nothing; a name is shown without control bytes, between
 * quotes as UTF-8, in JSON as a string that ends where it should.
 *
 * What the command says goes to descriptor 2: for that time it is a file in
 * memory, and the sanitizers report elsewhere. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "../../cli/json.h"
#include "../../cli/say.h"
#include "../../cli/take.h"

enum { WORDS = 64, SAID_MAX = 4096 };

void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

static const struct arg_option options[] = {
    ARG_COMMON_OPTIONS, ARG_TAKE_OPTIONS, ARG_RUN_OPTIONS,
    ARG_BREAK_OPTIONS,  ARG_DDL_OPTIONS,  {0}};

/* ---- What is said -------------------------------------------------------- */

static int said_fd = -1, real_fd = -1;

static void hear(void)
{
    if (said_fd < 0) {
        said_fd = memfd_create("said", MFD_CLOEXEC);
        real_fd = dup(STDERR_FILENO);
        PROMISE(said_fd >= 0 && real_fd >= 0);
        if (__sanitizer_set_report_fd)
            __sanitizer_set_report_fd((void *)(intptr_t)real_fd);
    }
    PROMISE(ftruncate(said_fd, 0) == 0 && lseek(said_fd, 0, SEEK_SET) == 0);
    PROMISE(dup2(said_fd, STDERR_FILENO) == STDERR_FILENO);
}

/* How many bytes were said; each line of them can be shown. */
static size_t heard(void)
{
    static char said[SAID_MAX];
    ssize_t len;

    PROMISE(dup2(real_fd, STDERR_FILENO) == STDERR_FILENO);
    len = pread(said_fd, said, sizeof said, 0);
    PROMISE(len >= 0);
    PROMISE(len == 0 || said[len - 1] == '\n');
    for (ssize_t i = 0; i + 1 < len; i++)
        PROMISE((unsigned char)said[i] >= 0x20 && said[i] != 0x7f);
    return (size_t)len;
}

/* ---- The words ----------------------------------------------------------- */

static bool is_of(const struct args *a, const char *value)
{
    for (int i = 1; i < a->argc; i++) {
        if (value >= a->argv[i] && value <= a->argv[i] + strlen(a->argv[i]))
            return true;
    }
    return false;
}

static bool in_bounds(int64_t ms)
{
    /* A time is rounded up to its unit at most. */
    return ms >= 0 && ms <= HF_MS_MAX + INT64_C(86400000);
}

static int read_option(struct take *t, const struct args *a, int id,
                       const char *value)
{
    uint64_t number = 0;
    int64_t ms = 0;

    if (id == ARG_KILL_AFTER) {
        if (!arg_span(a, "--kill-after", value, &ms))
            return ARG_BAD;
        PROMISE(in_bounds(ms));
        return 1;
    }
    if (id == ARG_TOKEN) {
        if (!arg_number(a, "--token", value, 1, UINT64_MAX, &number))
            return ARG_BAD;
        PROMISE(number > 0);
        return 1;
    }
    return take_option(t, a, id, value);
}

/* True: they were refused. */
static bool read_words(struct take *t, struct args *a)
{
    const char *value = NULL;
    int id;

    while ((id = args_next(a, &value)) > 0) {
        const struct arg_option *o = options;

        while (o->id != 0 && o->id != id)
            o++;
        PROMISE(o->id == id);
        PROMISE(!o->takes_value || is_of(a, value));
        if (read_option(t, a, id, value) == ARG_BAD)
            return true;
    }
    PROMISE(id == ARG_END || id == ARG_WORD || id == ARG_BAD);
    if (id == ARG_WORD) {
        PROMISE(is_of(a, value));
        t->key = value;
        if (!arg_key(a, value))
            return true;
    }
    return id == ARG_BAD || take_check(t, a) != 0;
}

static void check_line(char *text, size_t len)
{
    char run[] = "run", *argv[WORDS + 1] = {run};
    struct args a = {.command = "run", .options = options, .argv = argv};
    struct take t;
    size_t said;
    bool refused;

    a.at = a.argc = 1;
    for (size_t i = 0; i < len && a.argc <= WORDS; i += strlen(text + i) + 1)
        argv[a.argc++] = text + i;
    take_init(&t);
    say_setup(0, false);
    hear();
    refused = read_words(&t, &a);
    said = heard();
    PROMISE(refused == (said > 0));
    PROMISE(a.at <= a.argc);
    PROMISE(in_bounds(t.common.lease_ms) && in_bounds(t.at_most_ms) &&
            in_bounds(t.at_least_ms));
    PROMISE(t.wait_ms == HF_FOREVER || in_bounds(t.wait_ms));
    PROMISE(t.conflict_status >= 0 && t.conflict_status <= 255);
    PROMISE(t.slots <= 1000000);
}

/* ---- What is shown ------------------------------------------------------- */

static void check_shown(const struct text *t)
{
    const unsigned char *at = (const unsigned char *)t->data;

    PROMISE(!t->failed && t->len >= 2);
    for (size_t i = 0, n; i < t->len; i += n) {
        uint32_t c = 0;

        n = utf8_length(at + i, t->len - i, &c);
        PROMISE(n > 0 && c >= 0x20 && (c < 0x7f || c >= 0xa0));
    }
}

static void check_name(const uint8_t *bytes, size_t len)
{
    struct text t = {0};
    struct json j = {.out = &t};
    size_t quotes = 0;

    text_name(&t, bytes, len);
    check_shown(&t);
    text_free(&t);
    t = (struct text){0};
    json_open(&j, NULL, '{');
    json_bytes(&j, "k", bytes, len);
    json_close(&j, '}');
    check_shown(&t);
    for (size_t i = 0; i < t.len; i++) {
        if (t.data[i] == '\\')
            i++;
        else
            quotes += t.data[i] == '"';
    }
    PROMISE(quotes == 4 || quotes == 8);
    text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    PROMISE(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_line(text, size);
    free(text);
    check_name(data, size);
    return 0;
}
