/* registry.h - from a URL to an open store. */
#ifndef HF_CORE_REGISTRY_H
#define HF_CORE_REGISTRY_H

#include <holdfast/driver.h>

/* Find the driver of url, check the options, open the store.  *ret_url is the
 * caller's to free (hf__url_free). */
int hf__registry_open(const hf_driver **ret_driver, hf_store **ret,
                      hf_url **ret_url, const char *url, const hf_host *host,
                      uint32_t *ret_caps, hf_error *err);

/* In a forked child, before its first use: a thread of the parent may have had
 * the mutex at the fork. */
void hf__registry_forked(void);

/* A driver that a test brings along; found before all others. */
void hf__registry_add(const hf_driver *driver);

#endif
