/* zookeeper_scene_test.h - a session of ours, and a wire of the test's own by
 * which others look into the store and write there as Curator and kazoo do.
 * For tests that have a server; they include the harness's expect.h,
 * quorum_url.h and runner.h before it. */
#ifndef HF_DRIVERS_ZOOKEEPER_SCENE_TEST_H
#define HF_DRIVERS_ZOOKEEPER_SCENE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "wire_world.h"

#define UUID4 "1e6f2d3c-0a1b-4c2d-9e8f-00112233aabb"
#define HEX4 "1e6f2d3c0a1b4c2d9e8f00112233aabb"

typedef struct scene {
    char url[400], root[64];
    hf_session *s;
    world w; /* the others */
} scene;

static inline hf_session *open_session(const char *url, int64_t lease_ms)
{
    hf_open_options opt = {HF_OPEN_OPTIONS, .lease_ms = lease_ms,
                           .name = "a test"};
    hf_session *s = NULL;
    hf_error err;

    EXPECT_OK(hf_open(&s, url, &opt, &err), err);
    return s;
}

static inline void begin_scene(scene *sc, const char *query, int64_t lease_ms)
{
    char *url = quorum_test_url("zookeeper", "a", "", query);
    const char *path = strchr(strstr(url, "//") + 2, '/');

    snprintf(sc->url, sizeof sc->url, "%s", url);
    snprintf(sc->root, sizeof sc->root, "%.*s", (int)strcspn(path, "?"), path);
    free(url);
    sc->s = open_session(sc->url, lease_ms);
    open_world(&sc->w);
}

static inline void end_scene(scene *sc)
{
    hf_close(sc->s);
    close_world(&sc->w);
}

static inline const char *path_of(const scene *sc, const char *rest)
{
    static char paths[8][200];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s%s", sc->root, rest);
    return path;
}

/* As another program: the name it was given. */
static inline const char *create(scene *sc, const char *rest, int32_t flags,
                                 const char *data)
{
    static char made[200];
    ask a = make_ask(&sc->w, 0, true, LONG_MS);
    zk_request *request = add(&a, ZK_CREATE, path_of(sc, rest));

    request->flags = flags;
    request->data = data;
    request->data_len = strlen(data);
    EXPECT_EQ(drive(&a), HF_APPLIED);
    EXPECT_EQ(a.replies[0].error, 0);
    snprintf(made, sizeof made, "%s", a.path);
    return made;
}

static inline void remove_node(scene *sc, const char *path)
{
    EXPECT_EQ(ask_one(&sc->w, 0, ZK_DELETE, path), 0);
}

/* The children of a key, each with a blank behind it. */
static inline const char *children(scene *sc, const char *rest)
{
    static char names[400];
    ask a = make_ask(&sc->w, 0, true, LONG_MS);

    add(&a, ZK_SYNC, "/");
    add(&a, ZK_GET_CHILDREN, path_of(sc, rest));
    EXPECT_EQ(drive(&a), HF_APPLIED);
    snprintf(names, sizeof names, "%s", a.names);
    return names;
}

static inline hf_hold *take(hf_session *s, const char *key)
{
    hf_hold *hold = NULL;
    hf_error err;

    EXPECT_OK(hf_lock(s, key, NULL, &hold, &err), err);
    return hold;
}

static inline int try_key(hf_session *s, const char *key, hf_mode mode)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .mode = mode};
    hf_hold *hold = NULL;
    int code = hf_try_lock(s, key, &opt, &hold, NULL);

    if (code == 0)
        EXPECT_CODE(hf_release(hold, NULL), 0);
    return code;
}

#endif
