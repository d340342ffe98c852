/* old_driver.c - shared objects that must not be taken for drivers.
 *
 * Built several times, each with one thing wrong (CMakeLists.txt says which):
 * another ABI number, a struct that is too short, a driver of another scheme,
 * or no driver at all; or, nothing being wrong, of an age that did not know the
 * last member.  Its functions must never be called. */
#include <stddef.h>
#include <stdlib.h>

#include <holdfast/driver.h>

#ifndef OLD_ABI
#define OLD_ABI HF_DRIVER_ABI
#endif
#ifndef OLD_SIZE
#define OLD_SIZE sizeof(hf_driver)
#endif
#ifndef OLD_SCHEMES
#define OLD_SCHEMES "redis etcd mysql odbc"
#endif

static int old_open(hf_store **ret, const hf_url *url, const hf_host *host,
                    uint32_t *ret_caps, hf_error *err)
{
    (void)ret;
    (void)url;
    (void)host;
    (void)ret_caps;
    (void)err;
    abort();
}

static int old_ddl(const hf_url *url, bool guard, hf_ddl_fn *fn, void *user,
                   hf_error *err)
{
    (void)url;
    (void)guard;
    (void)fn;
    (void)user;
    (void)err;
    abort();
}

static const hf_driver old_driver = {
    .abi = OLD_ABI,
    .size = OLD_SIZE,
    .name = "old",
    .schemes = OLD_SCHEMES,
    .open = old_open,
    .ddl = old_ddl,
};

#ifdef OLD_NO_ENTRY
HF_API const hf_driver *hf_another_entry(void);
HF_API const hf_driver *hf_another_entry(void)
{
    return &old_driver;
}
#else
HF_API const hf_driver *hf_driver_entry(void);
HF_API const hf_driver *hf_driver_entry(void)
{
    return &old_driver;
}
#endif
