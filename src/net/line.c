/* line.c - how many operations are under way that nobody drives.
 *
 * An event loop may ask for ten thousand locks at once.  Sent at once they
 * would all be late: a cluster commits a few thousand a second, each attempt
 * has a deadline, and what is late is asked again, until nothing else gets
 * through, renewals least of all.  So a limited number is under way; the others
 * wait here, in order, unsent.  Threads that drive their own operation, and
 * what belongs to the session, are not put in line: there are few of them.
 *
 * One whose time is up before it was sent has certainly not been done, and is
 * told so when its turn comes.  That is soon: those under way have deadlines.
 * "Up" is a share of its attempt, because leases, and so attempts, may be
 * short: what begins with less than a quarter left is likely to be late, and
 * what is late is in doubt.  Until it begins, `sent` of an operation says since
 * when it waits.
 *
 * Two threads: one at a time moves the line on, the other leaves it to him.  An
 * ending operation does so before it is told, while the store lives for
 * certain.  No lock is held while the driver or the core is called. */
#include "net/line.h"

void hf__line_open(hf__line *line)
{
    pthread_mutex_init(&line->mu, NULL);
}

void hf__line_close(hf__line *line)
{
    pthread_mutex_destroy(&line->mu);
}

static hf_op *take_next(hf__line *line)
{
    hf_op *op = line->flights < line->most ? line->first : NULL;

    if (op) {
        line->first = *line->behind(op);
        if (!line->first)
            line->last = NULL;
        line->flights++;
    }
    return op;
}

/* Is there no use in beginning? */
static bool is_too_late(const hf_op *op)
{
    hf_nsec left = op->deadline - hfd_now();

    return left <= 0 || left < (op->deadline - op->sent) / 4;
}

static void begin(hf__line *line, hf_op *op)
{
    if (!is_too_late(op)) {
        op->sent = 0;
        line->begin(line->ctx, op);
        return;
    }
    pthread_mutex_lock(&line->mu);
    line->flights--;
    pthread_mutex_unlock(&line->mu);
    op->sent = hfd_now();
    hfd_error(&op->error, HF_EUNAVAIL, line->driver, 0,
              "too many requests of this process wait for the servers");
    hfd_finish(op, HF_NOT_APPLIED, HF_EUNAVAIL);
}

static void move_on(hf__line *line)
{
    hf_op *op;

    pthread_mutex_lock(&line->mu);
    if (!line->moving) {
        line->moving = true;
        while ((op = take_next(line))) {
            pthread_mutex_unlock(&line->mu);
            begin(line, op);
            pthread_mutex_lock(&line->mu);
        }
        line->moving = false;
    }
    pthread_mutex_unlock(&line->mu);
}

void hf__line_start(hf__line *line, hf_op *op)
{
    *line->behind(op) = NULL;
    op->sent = hfd_now();
    pthread_mutex_lock(&line->mu);
    if (line->last)
        *line->behind(line->last) = op;
    else
        line->first = op;
    line->last = op;
    pthread_mutex_unlock(&line->mu);
    move_on(line);
}

void hf__line_ended(hf__line *line)
{
    pthread_mutex_lock(&line->mu);
    line->flights--;
    pthread_mutex_unlock(&line->mu);
    move_on(line);
}
