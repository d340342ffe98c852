/* stage.h - one public call, and the world around it while faults are drawn.
 *
 * A scene is what sweep.c repeats: `prepare` without faults, `act` (the call
 * under test) with the n-th allocation or store operation failing, then the
 * invariants.  Scenes are in scenes.c, one per public function. */
#ifndef HOLDFAST_TESTS_STAGE_H
#define HOLDFAST_TESTS_STAGE_H

#include "../behaviour/support.h"

typedef struct stage {
    const char *url;   /* of s: the store behind the fault shim */
    hf_session *s;     /* the session under test; NULL while it is to open */
    hf_session *rival; /* of the same store, without faults */
    hf_hold *hold;     /* of s on "k", if act or prepare took it */
    hf_hold *theirs;   /* of the rival on "k" */
    hf_request *request;
    pthread_t helper; /* releases `theirs` while act waits */
    bool helping;
} stage;

typedef struct scene {
    void (*prepare)(stage *st); /* NULL: nothing */
    int (*act)(stage *st);      /* 0, or the code to be judged */
    bool opens;                 /* act opens s itself */
} scene;

/* X(name): scene_name in scenes.c. */
#define SCENES(X)                                                              \
    X(open)                                                                    \
    X(close)                                                                   \
    X(close_busy)                                                              \
    X(lock)                                                                    \
    X(lock_waits)                                                              \
    X(lock_times_out)                                                          \
    X(try_lock)                                                                \
    X(try_busy)                                                                \
    X(lock_shared)                                                             \
    X(lock_permit)                                                             \
    X(lock_leased)                                                             \
    X(lock_valued)                                                             \
    X(reenter)                                                                 \
    X(release)                                                                 \
    X(release_wakes)                                                           \
    X(release_kept)                                                            \
    X(renew)                                                                   \
    X(publish)                                                                 \
    X(hold_facts)                                                              \
    X(with_lock)                                                               \
    X(lock_start)                                                              \
    X(lock_start_waits)                                                        \
    X(release_start)                                                           \
    X(renew_start)                                                             \
    X(publish_start)                                                           \
    X(cancel)                                                                  \
    X(cancel_owner)                                                            \
    X(list)                                                                    \
    X(break_now)                                                               \
    X(doctor)
#define DECLARE_SCENE(name) extern const scene scene_##name;
SCENES(DECLARE_SCENE)

#endif
