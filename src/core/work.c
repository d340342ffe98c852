/* work.c - threads that run jobs, started when there is something to do.
 *
 * A crew never allocates: a job is part of the object that it is about, and
 * the threads are counted by an array.  Where no thread can be had the job
 * runs on the caller's: late is better than never.  All threads of the library
 * block all signals, so that the program's handlers run on its own threads. */
#include <signal.h>

#include "core/internal.h"

int hf__thread_start(pthread_t *ret, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

void hf__crew_init(hf__crew *crew, unsigned most)
{
    pthread_mutex_init(&crew->mu, NULL);
    pthread_cond_init(&crew->cond, NULL);
    hf__list_init(&crew->jobs);
    crew->most = most;
}

static void *run_crew(void *arg)
{
    hf__crew *crew = arg;

    pthread_mutex_lock(&crew->mu);
    for (;;) {
        hf__node *node = hf__list_first(&crew->jobs);

        if (node) {
            hf__job *job = HF_CONTAINER(node, hf__job, node);

            hf__list_remove(node);
            pthread_mutex_unlock(&crew->mu);
            job->run(job);
            pthread_mutex_lock(&crew->mu);
        } else if (crew->stop) {
            break;
        } else {
            crew->idle++;
            pthread_cond_wait(&crew->cond, &crew->mu);
            crew->idle--;
        }
    }
    pthread_mutex_unlock(&crew->mu);
    return NULL;
}

void hf__crew_give(hf__crew *crew, hf__job *job)
{
    bool here = false;

    pthread_mutex_lock(&crew->mu);
    hf__list_append(&crew->jobs, &job->node);
    if (crew->idle > 0) {
        pthread_cond_signal(&crew->cond);
    } else if (crew->count < crew->most) {
        if (hf__thread_start(&crew->threads[crew->count], run_crew, crew) == 0)
            crew->count++;
        else if (crew->count == 0)
            here = true;
    }
    if (here)
        hf__list_remove(&job->node);
    pthread_mutex_unlock(&crew->mu);
    if (here)
        job->run(job);
}

int hf__crew_ready(hf__crew *crew)
{
    int code = 0;

    pthread_mutex_lock(&crew->mu);
    if (crew->count == 0) {
        code = hf__thread_start(&crew->threads[0], run_crew, crew);
        crew->count = code == 0;
    }
    pthread_mutex_unlock(&crew->mu);
    return code ? HF_ENOMEM : 0;
}

void hf__crew_stop(hf__crew *crew)
{
    pthread_mutex_lock(&crew->mu);
    crew->stop = true;
    pthread_cond_broadcast(&crew->cond);
    pthread_mutex_unlock(&crew->mu);
    for (unsigned i = 0; i < crew->count; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->cond);
    pthread_mutex_destroy(&crew->mu);
}
