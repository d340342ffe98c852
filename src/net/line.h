/* line.h - how many operations are under way that nobody drives.
 *
 * For a store that commits a few thousand a second: of ten thousand that are
 * started at once a limited number is sent, the others wait in order. */
#ifndef HF_NET_LINE_H
#define HF_NET_LINE_H

#include <pthread.h>

#include <holdfast/driver.h>

typedef struct hf__line {
    /* the driver's; never changed */
    const char *driver;
    void *ctx;
    unsigned most;
    /* Its turn: start it for good, and call hf__line_ended when it is over,
     * before it is finished. */
    void (*begin)(void *ctx, hf_op *op);
    /* Where an operation of this driver notes who stands behind it. */
    hf_op **(*behind)(hf_op *op);
    /* the line's */
    pthread_mutex_t mu;
    hf_op *first, *last;
    unsigned flights;
    bool moving; /* somebody moves it on */
} hf__line;

void hf__line_open(hf__line *line); /* the driver's members are set */
void hf__line_close(hf__line *line);
/* Begins now or later.  One who has less than a quarter of his time left when
 * his turn comes is finished here: HF_NOT_APPLIED, HF_EUNAVAIL. */
void hf__line_start(hf__line *line, hf_op *op);
void hf__line_ended(hf__line *line);

#endif
