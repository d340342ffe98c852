/* verdict.c - what the rules found, and how it is drawn.
 *
 * A violation is shown as the lines of just the requests concerned, in the
 * order of time, with what the nemesis did about them.  Knows nothing of the
 * rules themselves. */
#include "case.h"

#include <stdarg.h>
#include <string.h>

#include <holdfast/holdfast.h>

void camp_convict(camp_case *c, int invariant, int64_t at, const camp_task *t,
                  const camp_task *rival, const char *format, ...)
{
    camp_verdict *v;
    va_list args;

    if (c->verdict_count++ >= CAMP_VERDICTS)
        return;
    v = &c->verdicts[c->verdict_count - 1];
    *v = (camp_verdict){.invariant = invariant, .at = at};
    if (t) {
        v->life = t->life;
        v->task = t->task;
    }
    if (rival) {
        v->rival_life = rival->life;
        v->rival_task = rival->task;
    }
    va_start(args, format);
    vsnprintf(v->text, sizeof v->text, format, args);
    va_end(args);
}

size_t camp_judge(camp_case *c)
{
    if (c->begin == 0)
        camp_convict(c, 10, 1, NULL, NULL,
                     "the history has no beginning: nothing can be concluded");
    camp_judge_holds(c);
    camp_judge_answers(c);
    camp_judge_losses(c);
    camp_judge_order(c);
    camp_judge_wakes(c);
    return c->verdict_count;
}

#define CAMP_TEXT(name, text) text,
static const char *const texts[] = {CAMP_MAP(CAMP_TEXT)};

static void print_record(FILE *out, const camp_case *c, const camp_record *r)
{
    static const char *const modes[] = {"alone", "shared", "permit"};
    static const char *const states[] = {"?", "HELD", "DOUBTFUL", "LOST",
                                         "RELEASED"};

    fprintf(out, "  %12.6f  ", (double)(r->at - c->begin) / 1e9);
    if (r->kind >= CAMP_KILL) {
        fprintf(out, "%s", texts[r->kind]);
        if (r->kind == CAMP_FAULT || r->kind == CAMP_HEALED)
            fprintf(out, " F%d", r->code);
        else if (r->task)
            fprintf(out, " (process %u)", r->task);
        fputc('\n', out);
        return;
    }
    fprintf(out, "process %u", r->life);
    if (r->task)
        fprintf(out, ", request %u, key %d (%s)", r->task, r->key,
                modes[r->mode]);
    fprintf(out, " %s", texts[r->kind]);
    if (r->kind == CAMP_CHANGE)
        fprintf(out, ": %s", states[r->number < 5 ? r->number : 0]);
    if (r->kind == CAMP_ACT)
        fprintf(out, ": %s", r->code ? "refused" : "taken");
    else if (r->code)
        fprintf(out, ": %s", hf_error_name(r->code));
    if (r->token && r->kind != CAMP_BEGIN && r->kind != CAMP_END)
        fprintf(out, ", token %llu", (unsigned long long)r->token);
    if (r->kind == CAMP_CHECK && r->code == 0)
        fprintf(out, ", until %.6f", (double)(r->until - c->begin) / 1e9);
    if (r->called < r->at)
        fprintf(out, ", called at %.6f", (double)(r->called - c->begin) / 1e9);
    if (r->flags & CAMP_TRY)
        fprintf(out, ", does not wait");
    if (r->flags & CAMP_AGAIN)
        fprintf(out, ", again");
    fputc('\n', out);
}

/* The conductor's lines count if they are about these processes, or about
 * everybody, and near. */
static bool is_concerned(const camp_case *c, const camp_verdict *v,
                         const camp_record *r)
{
    int64_t near = 2 * c->lease + INT64_C(1000000000);

    if (r->kind >= CAMP_KILL)
        return (r->task == 0 || r->task == v->life ||
                (v->rival_task && r->task == v->rival_life)) &&
               r->at > v->at - near && r->at < v->at + near;
    if (r->kind == CAMP_STALL)
        return (r->life == v->life || r->life == v->rival_life) &&
               r->at > v->at - near && r->at < v->at + near;
    if (r->task == 0)
        return r->life == v->life && v->task == 0 && r->at == v->at;
    return (r->life == v->life && r->task == v->task) ||
           (v->rival_task && r->life == v->rival_life &&
            r->task == v->rival_task);
}

void camp_print(FILE *out, const camp_case *c, const camp_verdict *v)
{
    /* A long hold has many checks; those in its middle say nothing new. */
    enum { MOST = 60 };
    size_t concerned = 0, n = 0;

    fprintf(out, "VIOLATION I%d at %.6f: %s\n", v->invariant,
            (double)(v->at - c->begin) / 1e9, v->text);
    for (size_t i = 0; i < c->count; i++)
        concerned += is_concerned(c, v, &c->records[i]);
    for (size_t i = 0; i < c->count; i++) {
        if (!is_concerned(c, v, &c->records[i]))
            continue;
        if (n < MOST / 2 || n + MOST / 2 >= concerned)
            print_record(out, c, &c->records[i]);
        else if (n == MOST / 2)
            fprintf(out, "  ... %zu lines\n", concerned - MOST);
        n++;
    }
}
