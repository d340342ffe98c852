/* rules_hold.c - never two at once, tokens that rise, and a resource that they
 * protect: I1, I2, I3.
 *
 * A belief is what the caller was told at least: from the instant after the
 * grant was told, to what remained at its last good check, or to its release
 * if that was answered with "yours all the time".  It ends with the first word
 * of a loss, and with the process.  A caller who was stopped goes on believing
 * to its deadline: the store must wait for that.  So an overlap is never an
 * artefact of when somebody wrote it down. */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

typedef struct span {
    int64_t from, to;
    const camp_task *t;
} span;

/* Sharers and holders of places bear their own kind. */
static bool excludes(const camp_task *a, const camp_task *b)
{
    return a->mode == HF_EXCLUSIVE || a->mode != b->mode;
}

static int by_key_and_start(const void *one, const void *other)
{
    const span *a = one, *b = other;

    if (a->t->key != b->t->key)
        return a->t->key < b->t->key ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* ---- I1 ----------------------------------------------------------------- */

/* Whoever begins must find gone whom it excludes.  Those who are still inside
 * are few: the list is as long as there are sharers. */
static void sweep(camp_case *c, const span *spans, size_t count,
                  const span **inside)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        const span *s = &spans[i];
        size_t kept = 0, others = 0;

        for (size_t k = 0; k < n; k++) {
            const span *o = inside[k];

            if (o->t->key != s->t->key || o->to <= s->from)
                continue;
            inside[kept++] = o;
            if (s->t->mode == HF_PERMIT && o->t->mode == HF_PERMIT &&
                ++others == CAMP_PLACES && !camp_excused(c, s->from, s->from))
                camp_convict(c, 1, s->from, s->t, o->t,
                             "key %d has %d places, and more are inside",
                             s->t->key, CAMP_PLACES);
            if (excludes(o->t, s->t) && !camp_excused(c, s->from, s->from))
                camp_convict(
                    c, 1, s->from, s->t, o->t,
                    "two holders of key %d for %.3f ms", s->t->key,
                    (double)((o->to < s->to ? o->to : s->to) - s->from) / 1e6);
        }
        n = kept;
        inside[n++] = s;
    }
}

static void judge_exclusion(camp_case *c)
{
    span *spans = calloc(c->task_count + 1, sizeof *spans);
    const span **inside = calloc(c->task_count + 1, sizeof(span *));
    size_t count = 0;

    for (size_t i = 0; spans && inside && i < c->task_count; i++) {
        span s = {.t = c->tasks[i]};

        if (camp_belief(c, s.t, &s.from, &s.to))
            spans[count++] = s;
    }
    if (spans && inside) {
        qsort(spans, count, sizeof *spans, by_key_and_start);
        sweep(c, spans, count, inside);
    } else {
        camp_convict(c, 10, c->begin, NULL, NULL, "no memory to judge");
    }
    free(spans);
    free(inside);
}

/* ---- I2 ----------------------------------------------------------------- */

static int by_key_and_token(const void *one, const void *other)
{
    const camp_task *a = *(camp_task *const *)one;
    const camp_task *b = *(camp_task *const *)other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

static int by_answer(const void *one, const void *other)
{
    const camp_task *a = *(camp_task *const *)one;
    const camp_task *b = *(camp_task *const *)other;

    return (a->answered > b->answered) - (a->answered < b->answered);
}

static void judge_unique(camp_case *c, camp_task **told, size_t count)
{
    qsort(told, count, sizeof *told, by_key_and_token);
    for (size_t i = 0; i < count; i++) {
        const camp_task *a = i ? told[i - 1] : NULL, *b = told[i];

        if (b->token == 0)
            camp_convict(c, 2, b->answered, b, NULL, "a grant has no token");
        else if (a && a->key == b->key && a->token == b->token &&
                 excludes(a, b))
            camp_convict(c, 2, b->answered, b, a,
                         "two grants of key %d have token %llu", b->key,
                         (unsigned long long)b->token);
    }
}

/* Whoever asked after a grant was told gets more than that had. */
static void judge_rising(camp_case *c, camp_task **told, size_t count)
{
    const camp_task *largest[CAMP_KEYS][2] = {{NULL}}; /* any, exclusive */
    size_t next = 0;

    qsort(told, count, sizeof *told, by_answer);
    for (size_t i = 0; i < c->task_count; i++) {
        const camp_task *b = c->tasks[i], *a;

        for (; next < count && told[next]->answered < b->asked; next++) {
            a = told[next];
            for (int alone = 0; alone <= (a->mode == HF_EXCLUSIVE); alone++) {
                if (!largest[a->key][alone] ||
                    largest[a->key][alone]->token < a->token)
                    largest[a->key][alone] = a;
            }
        }
        a = largest[b->key][b->mode != HF_EXCLUSIVE];
        if (b->granted && !(b->flags & CAMP_AGAIN) && a && b->token <= a->token)
            camp_convict(
                c, 2, b->answered, b, a, "token %llu was granted after %llu",
                (unsigned long long)b->token, (unsigned long long)a->token);
    }
}

static void judge_tokens(camp_case *c)
{
    camp_task **told = calloc(c->task_count + 1, sizeof(camp_task *));
    size_t count = 0;

    for (size_t i = 0; told && i < c->task_count; i++) {
        camp_task *t = c->tasks[i];
        camp_life *l = &c->lives[t->life];

        if (!t->granted || t->mode == HF_PERMIT)
            continue;
        if (!(t->flags & CAMP_AGAIN))
            told[count++] = t;
        else if (t->above > 0 && t->above <= l->most &&
                 l->tasks[t->above].token != t->token)
            camp_convict(c, 2, t->answered, t, &l->tasks[t->above],
                         "taken again with token %llu instead of %llu",
                         (unsigned long long)t->token,
                         (unsigned long long)l->tasks[t->above].token);
    }
    if (told && (c->promises & CAMP_TOKENS)) {
        judge_unique(c, told, count);
        judge_rising(c, told, count);
    } else if (!told) {
        camp_convict(c, 10, c->begin, NULL, NULL, "no memory to judge");
    }
    free(told);
}

/* ---- I3 ----------------------------------------------------------------- */

static void judge_fence(camp_case *c)
{
    const camp_record *largest[CAMP_KEYS] = {NULL}; /* accepted, exclusive */

    /* By the instant of the answer; a call that began after another's answer
     * came after it at the resource. */
    for (size_t i = 0; i < c->count; i++) {
        const camp_record *r = &c->records[i];
        camp_life *l = &c->lives[r->life];
        int64_t from, to;
        camp_task *t;

        if (r->kind != CAMP_ACT || r->task == 0 || r->task > l->most)
            continue;
        t = &l->tasks[r->task];
        if (t->flags & CAMP_AGAIN && t->above > 0 && t->above <= l->most)
            t = &l->tasks[t->above];
        if (r->code != 0) {
            if (camp_belief(c, t, &from, &to) && from <= r->called &&
                to >= r->at && !camp_excused(c, t->answered, r->at))
                camp_convict(c, 3, r->at, t, NULL,
                             "token %llu was refused, and its owner holds: "
                             "%llu was seen",
                             (unsigned long long)r->token,
                             (unsigned long long)r->number);
            continue;
        }
        if (largest[r->key] && largest[r->key]->at < r->called &&
            r->token < largest[r->key]->token)
            camp_convict(c, 3, r->at, t, NULL,
                         "the resource took token %llu after %llu",
                         (unsigned long long)r->token,
                         (unsigned long long)largest[r->key]->token);
        if (r->mode == HF_EXCLUSIVE &&
            (!largest[r->key] || largest[r->key]->token < r->token))
            largest[r->key] = r;
    }
}

void camp_judge_holds(camp_case *c)
{
    judge_exclusion(c);
    judge_tokens(c);
    judge_fence(c);
}
