/* work.h - threads that run jobs, started when there is something to do.
 *
 * A job is part of the object that it is about, so giving one needs no memory.
 * Knows nothing of sessions. */
#ifndef HF_CORE_WORK_H
#define HF_CORE_WORK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"

typedef struct hf__job {
    hf__node node;
    void (*run)(struct hf__job *job);
} hf__job;

typedef struct hf__crew {
    pthread_mutex_t mu;
    pthread_cond_t cond;
    hf__node jobs;
    pthread_t threads[4];
    unsigned count, most, idle;
    bool stop;
} hf__crew;

void hf__crew_init(hf__crew *crew, unsigned most);
/* Runs job on a thread of the crew, started when needed; on the caller's if
 * none can be had.  Never allocates. */
void hf__crew_give(hf__crew *crew, hf__job *job);
/* Have one thread ready, so that give never runs a job here. */
int hf__crew_ready(hf__crew *crew);
void hf__crew_stop(hf__crew *crew); /* runs what was given, joins */
/* A thread with all signals blocked. */
int hf__thread_start(pthread_t *ret, void *(*run)(void *), void *arg);

#endif
