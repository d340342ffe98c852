/* tls.h - OpenSSL for links; verification is on unless switched off by name. */
#ifndef HF_NET_TLS_H
#define HF_NET_TLS_H

#include <sys/types.h>

#include <holdfast/driver.h>

typedef struct hf__tls hf__tls;         /* what all links of a store share */
typedef struct hf__tls_end hf__tls_end; /* one link's end */

typedef struct hf__tls_options {
    const char *ca_file;     /* PEM; NULL: the system's */
    const char *cert_file;   /* PEM of the client's certificate; NULL: none */
    const char *key_file;    /* NULL: in cert_file */
    const char *server_name; /* to verify instead of the host dialled */
    const char *alpn;        /* one protocol, such as "h2"; NULL: none */
    bool insecure;           /* verify nothing */
} hf__tls_options;

/* HF_EURL: a file cannot be read or used, with its name in the text. */
int hf__tls_new(hf__tls **ret, const hf__tls_options *options, hf_error *err);
void hf__tls_free(hf__tls *tls);

typedef struct hf__tls_asked {
    const char *driver, *with; /* for messages; what the options are for */
    const char *alpn;
    bool wanted; /* else its options are refused, and *ret stays as it is */
} hf__tls_asked;
/* By ca_file, cert_file, key_file, tls_name and tls_verify of the URL. */
int hf__tls_of_url(hf__tls **ret, const hf_url *url, const hf__tls_asked *asked,
                   hf_error *err);

/* The rest is for dial.c.  Handshake on a connected, non-blocking socket. */
int hf__tls_begin(hf__tls_end **ret, hf__tls *tls, int fd, const char *host,
                  hf_nsec deadline, hf_error *err);
/* As hf__link_send and a hf__link_recv that does not wait. */
ssize_t hf__tls_send(hf__tls_end *end, const void *bytes, size_t n,
                     hf_error *err);
ssize_t hf__tls_recv(hf__tls_end *end, void *buf, size_t room, hf_error *err);
void hf__tls_end_free(hf__tls_end *end); /* without a word to the other side */

#endif
