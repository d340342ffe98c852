/* tls_url.c - what a URL says about TLS, the same for all who speak over it.
 *
 * Options of TLS in a URL without TLS are refused: who wrote them believes that
 * nobody listens, or that the server was verified.  Knows nothing of OpenSSL,
 * which is loaded only if TLS is wanted (tls_load.c). */
#include "net/tls.h"

int hf__tls_of_url(hf__tls **ret, const hf_url *url, const hf__tls_asked *asked,
                   hf_error *err)
{
    static const char *const names[] = {"ca_file", "cert_file", "key_file",
                                        "tls_name", "tls_verify"};
    bool verify = true;
    hf__tls_options options = {
        .ca_file = hfd_url_option(url, "ca_file"),
        .cert_file = hfd_url_option(url, "cert_file"),
        .key_file = hfd_url_option(url, "key_file"),
        .server_name = hfd_url_option(url, "tls_name"),
        .alpn = asked->alpn,
    };
    int code = hfd_url_flag(url, "tls_verify", &verify, err);

    if (code)
        return code;
    options.insecure = !verify;
    if (asked->wanted)
        return hf__tls_new(ret, &options, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (hfd_url_option(url, names[i]))
            return hfd_error(err, HF_EURL, asked->driver, 0,
                             "option '%s' is for %s", names[i], asked->with);
    }
    return 0;
}
