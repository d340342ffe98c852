/* url.h - scheme://user:password@host:port,host/path?name=value&... */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include <stdbool.h>

#include <holdfast/driver.h>

/* Parse; accessors are the hfd_url_ functions of driver.h. */
int hf__url_parse(hf_url **ret, const char *text, hf_error *err);
void hf__url_free(hf_url *url);

/* The same URL without what stands before the first '+' of the scheme;
 * HF_EURL when there is none. */
int hf__url_inner(hf_url **ret, const hf_url *url, hf_error *err);

/* The URL for people: passwords shown as '***'.  Lives as long as url. */
const char *hf__url_shown(const hf_url *url);

/* url_shown.c: text with every secret replaced; out has room for twice its
 * length and 16. */
void hf__url_show(char *out, const char *text);
/* Must it stay out of messages, whole and in part? */
bool hf__url_may_be_secret(const char *text);
/* Decodes %XX in place; false: a broken escape or a NUL byte. */
bool hf__url_decode(char *text);

/* Every option must be in one of the lists (NULL lists are empty). */
int hf__url_check_options(const hf_url *url, const char *const *known,
                          const char *const *also_known, hf_error *err);

#endif
