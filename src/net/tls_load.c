/* tls_load.c - OpenSSL is loaded by whoever wants TLS, and by nobody else.
 *
 * To map and bind OpenSSL costs every process more than a millisecond, half of
 * what a command that takes a lock needs besides; most stores are reached
 * without it.  So it is in an object of its own, holdfast-tls.so, loaded with
 * the first URL that asks for TLS, from the folder where the driver lies that
 * this file is linked into; a program that has the driver in itself, as tests
 * do, finds it in HOLDFAST_DRIVER_PATH, unless it is set-user-id.  Not beside
 * the program: where that lies is known by the name it was started with, which
 * is whatever its caller likes.
 *
 * Knows nothing of TLS.  It is loaded once and stays: two threads that come
 * here at once load the same object twice, which is once for the loader, and
 * note the same table. */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls_table.h"

static const hf__tls_table *_Atomic table;

/* 1: no such file here. */
static int load_from(const char *folder, size_t len, hf_error *err)
{
    const hf__tls_table *found;
    char path[512];
    void *object;
    FILE *file;
    int used =
        snprintf(path, sizeof path, "%.*s/holdfast-tls.so", (int)len, folder);

    if (used < 0 || (size_t)used >= sizeof path || len == 0)
        return 1;
    file = fopen(path, "re");
    if (!file)
        return 1;
    fclose(file);
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return hfd_error(err, HF_EDRIVER, "net", 0,
                         "TLS cannot be loaded: %.180s", dlerror());
    found = dlsym(object, "hf__tls_entry");
    if (!found || found->abi != HF__TLS_ABI)
        return hfd_error(err, HF_EDRIVER, "net", 0,
                         "'%.180s' is of another version of Holdfast", path);
    atomic_store(&table, found);
    return 0;
}

static int load(hf_error *err)
{
    const char *path = secure_getenv("HOLDFAST_DRIVER_PATH");
    struct link_map *map = NULL; /* of the program itself without a name */
    Dl_info here;
    int code = 1;

    if (dladdr1((void *)(uintptr_t)&hf__tls_new, &here, (void **)&map,
                RTLD_DL_LINKMAP) &&
        map && map->l_name) {
        const char *slash = strrchr(map->l_name, '/');

        if (slash)
            code = load_from(map->l_name, (size_t)(slash - map->l_name), err);
    }
    while (path && *path && code == 1) {
        size_t len = strcspn(path, ":");

        code = load_from(path, len, err);
        path += len + (path[len] == ':');
    }
    if (code == 1)
        return hfd_error(err, HF_EDRIVER, "net", 0,
                         "TLS needs 'holdfast-tls.so', which is not beside "
                         "the store's driver");
    return code;
}

int hf__tls_new(hf__tls **ret, const hf__tls_options *options, hf_error *err)
{
    int code = atomic_load(&table) ? 0 : load(err);

    return code ? code : atomic_load(&table)->new (ret, options, err);
}

void hf__tls_free(hf__tls *tls)
{
    if (tls)
        atomic_load(&table)->free(tls);
}

int hf__tls_begin(hf__tls_end **ret, hf__tls *tls, int fd, const char *host,
                  hf_nsec deadline, hf_error *err)
{
    return atomic_load(&table)->begin(ret, tls, fd, host, deadline, err);
}

ssize_t hf__tls_send(hf__tls_end *end, const void *bytes, size_t n,
                     hf_error *err)
{
    return atomic_load(&table)->send(end, bytes, n, err);
}

ssize_t hf__tls_recv(hf__tls_end *end, void *buf, size_t room, hf_error *err)
{
    return atomic_load(&table)->recv(end, buf, room, err);
}

void hf__tls_end_free(hf__tls_end *end)
{
    if (end)
        atomic_load(&table)->end_free(end);
}
