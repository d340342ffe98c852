/* tls_table.h - between tls_load.c and holdfast-tls.so, which is tls.c. */
#ifndef HF_NET_TLS_TABLE_H
#define HF_NET_TLS_TABLE_H

#include "net/tls.h"

#define HF__TLS_ABI 1

typedef struct hf__tls_table { /* as in tls.h */
    unsigned abi;
    int (*new)(hf__tls **ret, const hf__tls_options *options, hf_error *err);
    void (*free)(hf__tls *tls);
    int (*begin)(hf__tls_end **ret, hf__tls *tls, int fd, const char *host,
                 hf_nsec deadline, hf_error *err);
    ssize_t (*send)(hf__tls_end *end, const void *bytes, size_t n,
                    hf_error *err);
    ssize_t (*recv)(hf__tls_end *end, void *buf, size_t room, hf_error *err);
    void (*end_free)(hf__tls_end *end);
} hf__tls_table;

/* The one symbol of holdfast-tls.so. */
HF_API extern const hf__tls_table hf__tls_entry;

#endif
