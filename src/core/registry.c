/* registry.c - from a URL's scheme to a driver.
 *
 * First the built-in table, then a shared object `holdfast-NAME.so`, looked for
 * in $HOLDFAST_DRIVER_PATH (not in set-user-id programs), the folder that was
 * compiled in, and `holdfast/` beside the library.  So a Redis user never
 * loads libpq.  An object exports hf_driver_entry and stays loaded: its code
 * may be on some thread's stack.  The ABI number must be ours, its struct at
 * least as large as what every driver must have; later members are looked at
 * only where its size says that they are there. */
#include "core/registry.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"
#include "core/internal.h"

extern const hf_driver hf__driver_mem, hf__driver_sqlite;

static const hf_driver *const built_in[] = {&hf__driver_sqlite,
                                            &hf__driver_mem};

enum { LOADED_MAX = 32 };
static pthread_mutex_t loaded_mu = PTHREAD_MUTEX_INITIALIZER;
static const hf_driver *loaded[LOADED_MAX];
static size_t loaded_count;

/* Schemes that we know of, and the object that brings them. */
static const struct {
    const char *scheme, *module;
} known_schemes[] = {
    {"redis", "redis"},
    {"rediss", "redis"},
    {"redis+sentinel", "redis"},
    {"rediss+sentinel", "redis"},
    {"redis+cluster", "redis"},
    {"rediss+cluster", "redis"},
    {"redis+unix", "redis"},
    {"redlock", "redlock"},
    {"postgres", "postgres"},
    {"postgresql", "postgres"},
    {"mysql", "mariadb"},
    {"mariadb", "mariadb"},
    {"odbc", "odbc"},
    {"zookeeper", "zookeeper"},
    {"zookeepers", "zookeeper"},
    {"etcd", "etcd"},
    {"etcds", "etcd"},
    {"fault", "fault"},
    {"trace", "trace"},
};

static bool has_scheme(const hf_driver *driver, const char *scheme, size_t len)
{
    const char *at = driver->schemes;

    while (*at) {
        size_t word = strcspn(at, " ");

        if (word == len && strncmp(at, scheme, len) == 0)
            return true;
        at += word + strspn(at + word, " ");
    }
    return false;
}

static const hf_driver *find_loaded(const char *scheme, size_t len)
{
    for (size_t i = loaded_count; i-- > 0;) {
        if (has_scheme(loaded[i], scheme, len))
            return loaded[i];
    }
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        if (has_scheme(built_in[i], scheme, len))
            return built_in[i];
    }
    return NULL;
}

void hf__registry_forked(void)
{
    pthread_mutex_init(&loaded_mu, NULL);
}

void hf__registry_add(const hf_driver *driver)
{
    pthread_mutex_lock(&loaded_mu);
    if (loaded_count < LOADED_MAX)
        loaded[loaded_count++] = driver;
    pthread_mutex_unlock(&loaded_mu);
}

/* What is looked for: the scheme, and the object that would bring it. */
typedef struct search {
    const char *scheme;
    size_t len;
    char module[40];
} search;

static int accept_object(const hf_driver **ret, void *object, const char *path,
                         const search *for_, hf_error *err)
{
    const hf_driver *(*entry)(void);
    const hf_driver *driver;

    *(void **)&entry = dlsym(object, "hf_driver_entry");
    if (!entry)
        return hf__error(err, HF_EDRIVER, "'%s' is not a holdfast driver",
                         path);
    driver = entry();
    if (!driver || driver->abi != HF_DRIVER_ABI ||
        driver->size < offsetof(hf_driver, ddl))
        return hf__error(err, HF_EDRIVER,
                         "driver '%s' is made for another holdfast (ABI %u, "
                         "this one needs %u): install the same version of both",
                         path, driver ? driver->abi : 0, HF_DRIVER_ABI);
    if (!has_scheme(driver, for_->scheme, for_->len))
        return hf__error(err, HF_EDRIVER,
                         "driver '%s' does not know '%.*s:' (it knows '%s:'): "
                         "install the right one",
                         path, (int)for_->len, for_->scheme, driver->schemes);
    if (loaded_count == LOADED_MAX)
        return hf__error(err, HF_EDRIVER, "more than %d drivers", LOADED_MAX);
    loaded[loaded_count++] = driver;
    *ret = driver;
    return 0;
}

/* 1: no such file here. */
static int load_from(const hf_driver **ret, const char *folder, size_t len,
                     const search *for_, hf_error *err)
{
    char path[512];
    void *object;
    int used = snprintf(path, sizeof path, "%.*s/holdfast-%s.so", (int)len,
                        folder, for_->module);
    FILE *file;

    if (used < 0 || (size_t)used >= sizeof path || len == 0)
        return 1;
    file = fopen(path, "re");
    if (!file)
        return 1;
    fclose(file);
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return hf__error(err, HF_EDRIVER, "driver cannot be loaded: %.180s",
                         dlerror());
    return accept_object(ret, object, path, for_, err);
}

/* 1: there is none. */
static int load_module(const hf_driver **ret, const search *for_, hf_error *err)
{
    const char *path = secure_getenv("HOLDFAST_DRIVER_PATH");
    Dl_info here;
    int code = 1;

    while (path && *path && code == 1) {
        size_t len = strcspn(path, ":");

        code = load_from(ret, path, len, for_, err);
        path += len + (path[len] == ':');
    }
    if (code == 1)
        code = load_from(ret, HF_DRIVER_DIR, strlen(HF_DRIVER_DIR), for_, err);
    if (code == 1 && dladdr((void *)(uintptr_t)&hf_version, &here) &&
        here.dli_fname) {
        const char *slash = strrchr(here.dli_fname, '/');
        char folder[400];

        if (slash) {
            snprintf(folder, sizeof folder, "%.*s/holdfast",
                     (int)(slash - here.dli_fname), here.dli_fname);
            code = load_from(ret, folder, strlen(folder), for_, err);
        }
    }
    return code;
}

/* The object that would bring it; false: we have never heard of the scheme. */
static bool name_module(search *for_)
{
    snprintf(for_->module, sizeof for_->module, "%.*s", (int)for_->len,
             for_->scheme);
    for (size_t i = 0; i < sizeof known_schemes / sizeof *known_schemes; i++) {
        if (strcmp(known_schemes[i].scheme, for_->module) == 0) {
            snprintf(for_->module, sizeof for_->module, "%s",
                     known_schemes[i].module);
            return true;
        }
    }
    return false;
}

static int find_driver(const hf_driver **ret, const char *scheme, size_t len,
                       hf_error *err)
{
    search for_ = {.scheme = scheme, .len = len};
    int code = 0;

    pthread_mutex_lock(&loaded_mu);
    *ret = find_loaded(scheme, len);
    if (!*ret) {
        bool known = name_module(&for_);

        code = load_module(ret, &for_, err);
        if (code == 1 && known)
            code = hf__error(err, HF_EDRIVER,
                             "no driver for '%.*s:' here: install holdfast-%s "
                             "(or name its folder in HOLDFAST_DRIVER_PATH)",
                             (int)len, scheme, for_.module);
        else if (code == 1)
            code = hf__error(err, HF_EURL,
                             "unknown scheme '%.*s:': known are sqlite, mem, "
                             "redis, redlock, postgres, mysql, odbc, "
                             "etcd, zookeeper",
                             (int)len, scheme);
    }
    pthread_mutex_unlock(&loaded_mu);
    return code;
}

/* The driver of the whole scheme, else that of what stands before '+'. */
static int find_for_url(const hf_driver **ret, const char *scheme,
                        hf_error *err)
{
    const char *plus = strchr(scheme, '+');
    hf_error whole;

    if (plus) {
        int code = find_driver(ret, scheme, strlen(scheme), &whole);

        /* Known as a whole ("redis+sentinel"): what stands before '+' would
         * only fail again, under a name that the caller did not write. */
        if (code == HF_EDRIVER && err)
            *err = whole;
        if (code == 0 || code == HF_EDRIVER)
            return code;
    }
    return find_driver(ret, scheme,
                       plus ? (size_t)(plus - scheme) : strlen(scheme), err);
}

/* Options of a shim are known to the shim or to what it wraps. */
static int check_options(const hf_driver *driver, const hf_url *url,
                         const char *const *outer, hf_error *err)
{
    const hf_driver *inner;
    hf_url *inner_url;
    int code;

    if (has_scheme(driver, hfd_url_scheme(url), strlen(hfd_url_scheme(url))))
        return hf__url_check_options(url, driver->options, outer, err);
    code = hf__url_inner(&inner_url, url, err);
    if (code)
        return code;
    code = find_for_url(&inner, hfd_url_scheme(inner_url), err);
    if (code == 0)
        code = check_options(inner, inner_url, driver->options, err);
    hf__url_free(inner_url);
    return code;
}

int hf__registry_open(const hf_driver **ret_driver, hf_store **ret,
                      hf_url **ret_url, const char *text, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err)
{
    const hf_driver *driver;
    hf_url *url;
    int code = hf__url_parse(&url, text, err);

    if (code)
        return code;
    code = find_for_url(&driver, hfd_url_scheme(url), err);
    if (code == 0)
        code = check_options(driver, url, NULL, err);
    if (code == 0)
        code = driver->open(ret, url, host, ret_caps, err);
    if (code) {
        hf__url_free(url);
        return code;
    }
    *ret_driver = driver;
    *ret_url = url;
    return 0;
}

int hfd_open_inner(const hf_driver **ret_driver, hf_store **ret,
                   const hf_url *url, const hf_host *host, uint32_t *ret_caps,
                   hf_error *err)
{
    hf_url *inner;
    int code = hf__url_inner(&inner, url, err);

    if (code == 0) {
        code = find_for_url(ret_driver, hfd_url_scheme(inner), err);
        if (code == 0)
            code = (*ret_driver)->open(ret, inner, host, ret_caps, err);
        hf__url_free(inner);
    }
    return code;
}

static int print_ddl(const char *text, bool guard, hf_ddl_fn *fn, void *user,
                     hf_error *err)
{
    const hf_driver *driver;
    hf_url *url;
    int code;

    if (!fn)
        return hf__error(err, HF_EINVAL, "no function to call");
    code = hf__url_parse(&url, text, err);
    if (code)
        return code;
    code = find_for_url(&driver, hfd_url_scheme(url), err);
    if (code == 0)
        code = check_options(driver, url, NULL, err);
    if (code == 0 && (driver->size <= offsetof(hf_driver, ddl) || !driver->ddl))
        code = hf__error(err, HF_ENOTSUP,
                         "'%s:' needs nothing beforehand: it makes what it "
                         "stores in by itself",
                         hfd_url_scheme(url));
    else if (code == 0)
        code = driver->ddl(url, guard, fn, user, err);
    hf__url_free(url);
    return code;
}

int hf_ddl(const char *text, bool guard, hf_ddl_fn *fn, void *user,
           hf_error *err)
{
    hf__api_enter();
    return hf__api_leave(print_ddl(text, guard, fn, user, err));
}
