/* tls.c - OpenSSL for links; the one source of holdfast-tls.so.
 *
 * Is the other side who it says it is, and what does somebody do about it when
 * not?  The certificate is verified against the system's authorities or a
 * file, and against the name or number that was dialled; each refusal becomes
 * one line with its cure.  TLS 1.2 at least, no renegotiation, no resumption.
 *
 * An SSL is not for two threads, but one of ours sends while another receives:
 * a mutex stands around each call into it.  It is never held while waiting,
 * because the BIO below never waits; waiting is link.c's, on the socket.  The
 * BIO also keeps SIGPIPE away, which OpenSSL's own does not.
 *
 * A receive takes a whole record at once when it is given room for one (16
 * KiB), so that nothing stays inside OpenSSL of which the socket does not
 * tell.  The thread's error queue is emptied before each call and after each
 * failure: what another library of the process left there is not our error.
 * Reply lost, or paused here: the bytes are a stream, the layers above know.
 */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net/link.h"
#include "net/tls_table.h"

struct hf__tls {
    SSL_CTX *ctx;
    BIO_METHOD *method;
    char *server_name; /* NULL: the host that is dialled */
    bool insecure, alpn;
};

struct hf__tls_end {
    pthread_mutex_t mu; /* around each use of ssl */
    SSL *ssl;
};

/* ---- A BIO that neither waits nor raises SIGPIPE ---- */

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int n)
{
    ssize_t sent;

    BIO_clear_retry_flags(bio);
    do
        sent = send(bio_fd(bio), bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *buf, int room)
{
    ssize_t got;

    BIO_clear_retry_flags(bio);
    do
        got = recv(bio_fd(bio), buf, (size_t)room, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    return (int)got;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is kept back here */
}

static BIO_METHOD *new_method(void)
{
    BIO_METHOD *method =
        BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "holdfast");

    if (method && BIO_meth_set_write(method, bio_write) &&
        BIO_meth_set_read(method, bio_read) &&
        BIO_meth_set_ctrl(method, bio_ctrl))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- What a store's links share ---- */

/* The reason at the front of OpenSSL's queue, which is emptied. */
static const char *take_reason(void)
{
    unsigned long first = ERR_peek_error();
    const char *text = ERR_reason_error_string(first);

    ERR_clear_error();
    return text ? text : "OpenSSL does not say why";
}

static int refuse_file(const char *what, const char *file, hf_error *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    int native = errno;

    if (fd < 0) {
        ERR_clear_error();
        return hfd_error(err, HF_EURL, "net", native, "%s '%s': %s", what, file,
                         strerror(native));
    }
    close(fd);
    return hfd_error(err, HF_EURL, "net", 0, "%s '%s' cannot be used: %s", what,
                     file, take_reason());
}

/* An encrypted key would otherwise be asked for on the terminal. */
static int no_password(char *buf, int room, int writing, void *user)
{
    (void)buf;
    (void)room;
    (void)writing;
    (void)user;
    return -1;
}

static int load_files(SSL_CTX *ctx, const hf__tls_options *options,
                      hf_error *err)
{
    const char *cert = options->cert_file;
    const char *key = options->key_file ? options->key_file : cert;

    if (options->ca_file) {
        if (SSL_CTX_load_verify_file(ctx, options->ca_file) != 1)
            return refuse_file("ca_file", options->ca_file, err);
    } else if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return hfd_error(err, HF_EURL, "net", 0,
                         "the system's certificates cannot be used: %s "
                         "(set ca_file=)",
                         take_reason());
    }
    if (!cert && options->key_file)
        return hfd_error(err, HF_EURL, "net", 0,
                         "key_file '%s' without a cert_file",
                         options->key_file);
    if (!cert)
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return refuse_file("cert_file", cert, err);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return refuse_file("key_file", key, err);
    return 0;
}

static bool set_alpn(SSL_CTX *ctx, const char *alpn)
{
    unsigned char wire[256];
    size_t len = strlen(alpn);

    if (len == 0 || len > 255)
        return false;
    wire[0] = (unsigned char)len;
    memcpy(wire + 1, alpn, len);
    return SSL_CTX_set_alpn_protos(ctx, wire, (unsigned)len + 1) == 0;
}

static int fill_tls(hf__tls *tls, const hf__tls_options *options, hf_error *err)
{
    size_t len = options->server_name ? strlen(options->server_name) : 0;
    int rc;

    tls->insecure = options->insecure;
    tls->alpn = options->alpn != NULL;
    tls->method = new_method();
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (len > 0)
        tls->server_name = hfd_alloc(len + 1);
    if (!tls->method || !tls->ctx || (len > 0 && !tls->server_name))
        return hfd_error(err, HF_ENOMEM, "net", 0, "no memory for TLS");
    if (len > 0)
        memcpy(tls->server_name, options->server_name, len);
    SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
    /* What is sent again after a full socket may lie elsewhere by then. */
    SSL_CTX_set_mode(tls->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(tls->ctx, no_password);
    SSL_CTX_set_verify(
        tls->ctx, options->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1 ||
        (options->alpn && !set_alpn(tls->ctx, options->alpn)))
        return hfd_error(err, HF_EURL, "net", 0, "TLS: %s", take_reason());
    ERR_clear_error();
    rc = load_files(tls->ctx, options, err);
    ERR_clear_error();
    return rc;
}

static void tls_free(hf__tls *tls);

static int tls_new(hf__tls **ret, const hf__tls_options *options, hf_error *err)
{
    hf__tls *tls;
    int rc;

    /* A thread of ours may still be at work while the program exits: what it
     * uses must not be taken down under it. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return hfd_error(err, HF_EINTERNAL, "net", 0, "OpenSSL: %s",
                         take_reason());
    tls = hfd_alloc(sizeof *tls);
    if (!tls)
        return hfd_error(err, HF_ENOMEM, "net", 0, "no memory for TLS");
    rc = fill_tls(tls, options, err);
    if (rc != 0) {
        tls_free(tls);
        return rc;
    }
    *ret = tls;
    return 0;
}

static void tls_free(hf__tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    hfd_free(tls->server_name);
    hfd_free(tls);
}

/* ---- One link's end ---- */

static bool is_number(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, bytes) == 1 ||
           inet_pton(AF_INET6, host, bytes) == 1;
}

/* Whom we expect: by SNI, and in the certificate. */
static bool expect_name(SSL *ssl, const char *name, bool insecure)
{
    bool number = is_number(name);
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (!number && SSL_set_tlsext_host_name(ssl, name) != 1)
        return false;
    if (insecure)
        return true;
    X509_VERIFY_PARAM_set_hostflags(param,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return number ? X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1
                  : X509_VERIFY_PARAM_set1_host(param, name, 0) == 1;
}

static int refuse_certificate(long verdict, const char *name, hf_error *err)
{
    const char *why = X509_verify_cert_error_string(verdict), *cure = "";

    switch (verdict) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        cure = " (set ca_file=)";
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        why = verdict == X509_V_ERR_HOSTNAME_MISMATCH ? "host name mismatch"
                                                      : "IP address mismatch";
        cure = " (it names another; set tls_name= to what it names)";
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        cure = " (renew it on the server)";
        break;
    default:
        break;
    }
    return hfd_error(err, HF_EAUTH, "net", (int)verdict,
                     "certificate of '%s' refused: %s%s", name, why, cure);
}

/* What an SSL call that failed means; `native` is errno right after it. */
static int explain(SSL *ssl, int rc, int native, hf_error *err)
{
    int kind = SSL_get_error(ssl, rc);
    int reason = ERR_GET_REASON(ERR_peek_error());

    if (kind == SSL_ERROR_ZERO_RETURN ||
        (kind == SSL_ERROR_SSL &&
         reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) ||
        (kind == SSL_ERROR_SYSCALL && native == 0)) {
        ERR_clear_error();
        return hfd_error(err, HF_EUNAVAIL, "net", 0,
                         "the server closed the connection%s",
                         SSL_is_init_finished(ssl)
                             ? ""
                             : " in the TLS handshake (does it speak TLS on "
                               "this port?)");
    }
    if (kind == SSL_ERROR_SYSCALL) {
        ERR_clear_error();
        return hfd_error(err, HF_EUNAVAIL, "net", native, "%s",
                         strerror(native));
    }
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        ERR_clear_error();
        return hfd_error(err, HF_EAUTH, "net", reason,
                         "TLS: the server refused us; it may want a "
                         "certificate (set cert_file=)");
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        return hfd_error(err, HF_EAUTH, "net", reason,
                         "TLS: the server refused our certificate: %s",
                         take_reason());
    case SSL_R_WRONG_VERSION_NUMBER:
        ERR_clear_error();
        return hfd_error(err, HF_EUNAVAIL, "net", reason,
                         "no TLS there (does the server speak it on this "
                         "port?)");
    default:
        return hfd_error(err, HF_EUNAVAIL, "net", reason, "TLS: %s",
                         take_reason());
    }
}

static int shake_hands(hf__tls_end *end, int fd, const char *name,
                       hf_nsec deadline, hf_error *err)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd};
        int rc, kind, native;
        long verdict;

        ERR_clear_error();
        errno = 0;
        rc = SSL_connect(end->ssl);
        native = errno;
        if (rc == 1)
            return 0;
        kind = SSL_get_error(end->ssl, rc);
        if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE) {
            verdict = SSL_get_verify_result(end->ssl);
            if (kind != SSL_ERROR_SSL || verdict == X509_V_OK)
                return explain(end->ssl, rc, native, err);
            ERR_clear_error();
            return refuse_certificate(verdict, name, err);
        }
        poll_fd.events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        if (hf__poll_until(&poll_fd, 1, deadline) == 0)
            return hfd_error(err, HF_EUNAVAIL, "net", ETIMEDOUT,
                             "no answer to the TLS handshake in time (does "
                             "the server speak TLS on this port?)");
    }
}

/* Did the server choose the one protocol that was offered? */
static int check_alpn(const hf__tls *tls, SSL *ssl, hf_error *err)
{
    const unsigned char *chosen = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(ssl, &chosen, &len);
    if (tls->alpn && len == 0)
        return hfd_error(err, HF_EPROTO, "net", 0,
                         "the server does not speak the protocol that TLS was "
                         "to agree on (ALPN)");
    return 0;
}

static void tls_end_free(hf__tls_end *end);

static int tls_begin(hf__tls_end **ret, hf__tls *tls, int fd, const char *host,
                     hf_nsec deadline, hf_error *err)
{
    const char *name = tls->server_name ? tls->server_name : host;
    hf__tls_end *end = hfd_alloc(sizeof *end);
    BIO *bio = BIO_new(tls->method);
    int rc;

    if (end)
        end->ssl = SSL_new(tls->ctx);
    if (!end || !end->ssl || !bio ||
        !expect_name(end->ssl, name, tls->insecure)) {
        BIO_free(bio);
        if (end)
            SSL_free(end->ssl);
        hfd_free(end);
        ERR_clear_error();
        return hfd_error(err, HF_ENOMEM, "net", 0,
                         "no memory for TLS with '%s'", name);
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(end->ssl, bio, bio);
    pthread_mutex_init(&end->mu, NULL);
    rc = shake_hands(end, fd, name, deadline, err);
    if (rc == 0)
        rc = check_alpn(tls, end->ssl, err);
    if (rc != 0) {
        tls_end_free(end);
        return rc;
    }
    *ret = end;
    return 0;
}

/* Of a call that did not do all: 0 when it only has to be repeated. */
static ssize_t not_now(hf__tls_end *end, int rc, int native, hf_error *err)
{
    int kind = SSL_get_error(end->ssl, rc);

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return 0;
    explain(end->ssl, rc, native, err);
    return -1;
}

static ssize_t tls_send(hf__tls_end *end, const void *bytes, size_t n,
                        hf_error *err)
{
    size_t sent = 0;
    ssize_t ret;
    int rc;

    pthread_mutex_lock(&end->mu);
    ERR_clear_error();
    errno = 0;
    rc = SSL_write_ex(end->ssl, bytes, n, &sent);
    ret = rc == 1 ? (ssize_t)sent : not_now(end, rc, errno, err);
    pthread_mutex_unlock(&end->mu);
    return ret;
}

static ssize_t tls_recv(hf__tls_end *end, void *buf, size_t room, hf_error *err)
{
    size_t got = 0;
    ssize_t ret;
    int rc;

    pthread_mutex_lock(&end->mu);
    ERR_clear_error();
    errno = 0;
    rc = SSL_read_ex(end->ssl, buf, room, &got);
    ret = rc == 1 ? (ssize_t)got : not_now(end, rc, errno, err);
    pthread_mutex_unlock(&end->mu);
    return ret;
}

static void tls_end_free(hf__tls_end *end)
{
    if (!end)
        return;
    /* SSL_free sends nothing; a farewell would be SSL_shutdown. */
    SSL_free(end->ssl);
    pthread_mutex_destroy(&end->mu);
    hfd_free(end);
}

HF_API const hf__tls_table hf__tls_entry = {
    .abi = HF__TLS_ABI,
    .new = tls_new,
    .free = tls_free,
    .begin = tls_begin,
    .send = tls_send,
    .recv = tls_recv,
    .end_free = tls_end_free,
};
