/* judge.c - one pass over the sections of each key, by the instant at which
 * they were entered.
 *
 * Somebody who enters must find gone whoever may not be there with him: it is
 * enough to remember the last instant at which one who was alone was inside,
 * and the last one of those who share, because whoever entered earlier and is
 * still inside stays the latest.  The same for the tokens. */
#include "judge.h"

#include <stdlib.h>

static int by_key_then_time(const void *one, const void *other)
{
    const section *a = one, *b = other;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->got_ns > b->got_ns) - (a->got_ns < b->got_ns);
}

typedef struct past { /* of one key; [0]: those who share, [1]: alone */
    int64_t inside_ns[2];
    uint64_t token[2];
} past;

static void judge_one(const section *s, past *before, verdict *ret)
{
    /* Whoever is alone must not meet those who share, either. */
    bool met = s->got_ns < before->inside_ns[1] ||
               (s->alone && s->got_ns < before->inside_ns[0]);
    bool fell = s->token <= before->token[1] ||
                (s->alone && s->token <= before->token[0]);

    ret->sections++;
    ret->overlaps += met;
    ret->falls += fell;
    if (s->gave_ns > before->inside_ns[s->alone])
        before->inside_ns[s->alone] = s->gave_ns;
    if (s->token > before->token[s->alone])
        before->token[s->alone] = s->token;
}

verdict judge(section *sections, size_t count)
{
    verdict ret = {0};
    past before = {.inside_ns = {INT64_MIN, INT64_MIN}};

    if (count == 0)
        return ret;
    qsort(sections, count, sizeof *sections, by_key_then_time);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && sections[i].key != sections[i - 1].key)
            before = (past){.inside_ns = {INT64_MIN, INT64_MIN}};
        judge_one(&sections[i], &before, &ret);
    }
    return ret;
}
