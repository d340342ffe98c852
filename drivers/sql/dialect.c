/* dialect.c - one list of statements, said in the words of each database.
 *
 * Answers: how does this database want to hear this statement, and which
 * parameter belongs to which place?  Knows nothing of what the statements are
 * for; the words are in dialect_words.c, the templates in statements.h.
 *
 * A template is walked once.  A word in it is replaced by the dialect's
 * pattern, whose arguments are walked in turn, so that words stand inside words
 * (@text(@now + @int(?4))); what a pattern itself says is never walked.  Places
 * are counted as they are written: where they are numbered each parameter has
 * one number, in the order in which it first appears, so that one that a
 * database does not use leaves no gap; where they are not, a parameter that
 * appears twice has two places.
 *
 * No value of a user is ever part of a text: keys, ids and numbers are
 * parameters, and the two names that are not, schema and prefix, are checked by
 * the caller and quoted here. */
#include "dialect.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct work {
    const sql_dialect *dialect;
    const char *schema, *prefix;
    char *out;
    size_t len;
    uint8_t order[SQL_PARAMS];
    uint8_t count;
    const char *wrong; /* the first thing that was; NULL: nothing */
} work;

typedef struct span { /* of a template */
    const char *at, *end;
} span;

enum { ARGS_MAX = 8 };

static void put(work *w, const char *text, size_t len)
{
    if (len >= SQL_TEXT_MAX - w->len) {
        w->wrong = "too long";
        return;
    }
    memcpy(w->out + w->len, text, len);
    w->len += len;
    w->out[w->len] = '\0';
}

static void put_text(work *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_name(work *w, const char *before, const char *name)
{
    char quote = w->dialect->quote;

    put(w, &quote, 1);
    put_text(w, before);
    put_text(w, name);
    put(w, &quote, 1);
}

static void put_table(work *w, const char *name)
{
    if (*w->schema) {
        put_name(w, "", w->schema);
        put(w, ".", 1);
    }
    put_name(w, w->prefix, name);
}

/* Parameter `number`, from 0. */
static void put_place(work *w, unsigned number)
{
    char text[8];
    uint8_t at = 0;

    if (number >= SQL_PARAMS) {
        w->wrong = "a parameter out of range";
        return;
    }
    if (w->dialect->numbered)
        while (at < w->count && w->order[at] != number)
            at++;
    else
        at = w->count;
    if (at == SQL_PARAMS) {
        w->wrong = "too many places";
        return;
    }
    w->order[at] = (uint8_t)number;
    if (at == w->count)
        w->count++;
    snprintf(text, sizeof text, w->dialect->numbered ? "$%u" : "?", at + 1U);
    put_text(w, text);
}

/* ---- Walking ---- */

static void walk(work *w, span text);

/* Behind the quote that ends what begins here. */
static const char *after_quote(const char *at, const char *end)
{
    const char *last = memchr(at + 1, *at, (size_t)(end - at - 1));

    return last ? last + 1 : end;
}

/* "(a, f(b, c))" at *io: its arguments; *io behind it.  How many, 0: none. */
static size_t take_args(const char **io, const char *end, span args[ARGS_MAX])
{
    const char *at = *io + 1;
    size_t n = 0;
    int depth = 0;

    args[0].at = at;
    while (at < end) {
        if (*at == '\'') {
            at = after_quote(at, end);
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == ')')) {
            args[n++].end = at;
            if (*at == ')') {
                *io = at + 1;
                return n;
            }
            if (n == ARGS_MAX)
                return 0;
            args[n].at = at + 1;
        }
        depth += (*at == '(') - (*at == ')');
        at++;
    }
    return 0;
}

static void walk_trimmed(work *w, span arg)
{
    while (arg.at < arg.end && *arg.at == ' ')
        arg.at++;
    walk(w, arg);
}

/* A pattern: % or %1 is the first argument, %2 the second. */
static void put_pattern(work *w, const char *pattern, const span *args,
                        size_t n)
{
    for (const char *at = pattern; *at; at++) {
        size_t which = 0;

        if (*at != '%') {
            put(w, at, 1);
            continue;
        }
        if (at[1] == '1' || at[1] == '2')
            which = (size_t)(*++at - '1');
        if (which >= n) {
            w->wrong = "an argument is missing";
            return;
        }
        walk_trimmed(w, args[which]);
    }
}

static void put_cat(work *w, const span *args, size_t n)
{
    const char *between = w->dialect->cat;

    put_text(w, between ? "(" : "CONCAT(");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            put_text(w, between ? between : ", ");
        walk_trimmed(w, args[i]);
    }
    put(w, ")", 1);
}

/* "?7", and nothing else: 6; -1: not that. */
static int number_of(span arg)
{
    int number = 0;

    if (arg.end - arg.at < 2 || arg.end - arg.at > 3 || *arg.at != '?')
        return -1;
    for (const char *at = arg.at + 1; at < arg.end; at++) {
        if (!isdigit((unsigned char)*at))
            return -1;
        number = number * 10 + (*at - '0');
    }
    return number - 1;
}

static void put_many(work *w, span first, bool keys)
{
    int number = number_of(first);

    if (number < 0) {
        w->wrong = "a list begins with a parameter";
        return;
    }
    for (int i = number; i < number + SQL_MANY; i++) {
        char place[8];
        span arg = {place, place};

        arg.end += snprintf(place, sizeof place, "?%d", i + 1);
        if (i > number)
            put_text(w, ", ");
        put_pattern(w, keys ? w->dialect->key_in : "%", &arg, 1);
    }
}

/* ---- The words ---- */

static bool is(span name, const char *word)
{
    size_t len = strlen(word);

    return (size_t)(name.end - name.at) == len &&
           memcmp(name.at, word, len) == 0;
}

/* Words without arguments; false: not one of them. */
static bool put_plain(work *w, span name)
{
    static const char *const tables[] = {"queue", "session", "meta", "value"};
    const sql_dialect *d = w->dialect;

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (is(name, tables[i])) {
            put_table(w, tables[i]);
            return true;
        }
    }
    if (is(name, "now"))
        put_text(w, d->now ? d->now : "0");
    else if (is(name, "epoch"))
        put_text(w, d->epoch ? d->epoch : "''");
    else if (is(name, "share"))
        put_text(w, d->share ? d->share : "");
    else if (is(name, "few"))
        put_text(w, d->few);
    else
        return false;
    return true;
}

static void put_call(work *w, span name, const span *args, size_t n)
{
    const sql_dialect *d = w->dialect;
    const struct {
        const char *word, *pattern;
    } words[] = {{"key", d->key_in},  {"hex", d->key_out}, {"pos", d->pos},
                 {"head", d->head},   {"len", d->len},     {"text", d->text},
                 {"int", d->integer}, {"from", d->from}};

    if (n == 0) {
        w->wrong = "a bracket is open";
        return;
    }
    if (is(name, "cat")) {
        put_cat(w, args, n);
        return;
    }
    if (is(name, "keys") || is(name, "ids")) {
        put_many(w, args[0], is(name, "keys"));
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is(name, words[i].word)) {
            put_pattern(w, words[i].pattern, args, n);
            return;
        }
    }
    w->wrong = "an unknown word";
}

/* "@word" or "@word(...)" at `at`; behind it. */
static const char *walk_word(work *w, const char *at, const char *end)
{
    span name = {at + 1, at + 1}, args[ARGS_MAX];
    size_t n;

    while (name.end < end && islower((unsigned char)*name.end))
        name.end++;
    if (put_plain(w, name))
        return name.end;
    at = name.end;
    if (at == end || *at != '(') {
        w->wrong = "an unknown word";
        return end;
    }
    n = take_args(&at, end, args);
    put_call(w, name, args, n);
    return n > 0 ? at : end;
}

static const char *walk_place(work *w, const char *at, const char *end)
{
    span place = {at, at + 1};
    int number;

    while (place.end < end && isdigit((unsigned char)*place.end))
        place.end++;
    number = number_of(place);
    if (number < 0)
        w->wrong = "a parameter without a number";
    else
        put_place(w, (unsigned)number);
    return place.end;
}

static void walk(work *w, span text)
{
    const char *at = text.at;

    while (at < text.end && !w->wrong) {
        const char *next;

        if (*at == '@') {
            at = walk_word(w, at, text.end);
        } else if (*at == '?') {
            at = walk_place(w, at, text.end);
        } else {
            next = *at == '\'' ? after_quote(at, text.end) : at + 1;
            put(w, at, (size_t)(next - at));
            at = next;
        }
    }
}

/* ---- What others call ---- */

/* An override says what it wants to be answered; a common template loses that
 * where the database has no such thing. */
static const char *end_of(const sql_dialect *dialect, const char *template,
                          bool own)
{
    const char *answer = strstr(template, " RETURNING ");

    if (!own && !dialect->returning && answer)
        return answer;
    return template + strlen(template);
}

static int render(work *w, const char *name, span text, hf_error *err)
{
    w->out[0] = '\0';
    walk(w, text);
    while (w->len > 0 && w->out[w->len - 1] == ' ')
        w->out[--w->len] = '\0';
    if (w->wrong)
        return hfd_error(err, HF_EINTERNAL, w->dialect->name, 0,
                         "the statement '%s' cannot be said: %s", name,
                         w->wrong);
    return 0;
}

static const char *override_of(const sql_dialect *dialect, const char *name)
{
    const char *const *pair = dialect->overrides;

    for (; pair && *pair; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

int sql_render(sql_text texts[SQL_COUNT], const sql_dialect *dialect,
               const char *schema, const char *prefix, hf_error *err)
{
    static const struct {
        const char *name, *template;
        bool writes;
    } list[SQL_COUNT] = {
#define SQL_ITEM(name, writes, text) {#name, text, writes},
        SQL_STATEMENTS(SQL_ITEM)
#undef SQL_ITEM
    };

    for (size_t i = 0; i < SQL_COUNT; i++) {
        const char *own = override_of(dialect, list[i].name);
        const char *template = own ? own : list[i].template;
        span text = {template, end_of(dialect, template, own != NULL)};
        work w = {.dialect = dialect,
                  .schema = schema,
                  .prefix = prefix,
                  .out = texts[i].text};
        int code = render(&w, list[i].name, text, err);

        if (code != 0)
            return code;
        texts[i].id = (sql_id)i;
        texts[i].writes = list[i].writes;
        texts[i].count = w.count;
        memcpy(texts[i].order, w.order, sizeof w.order);
    }
    return 0;
}

int sql_render_one(char *ret, const sql_dialect *dialect, const char *schema,
                   const char *prefix, const char *template, hf_error *err)
{
    span text = {template, template + strlen(template)};
    work w = {
        .dialect = dialect, .schema = schema, .prefix = prefix, .out = ret};

    return render(&w, template, text, err);
}
