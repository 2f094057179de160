/* transfer.c -- one easy handle: its options, its redirects, its result. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "loop/system.h"
#include "net/parts.h"

enum {
    DONE_GRACE_MS = 250, /* after [DONE], for the reply to end so that the connection is reused */
};

Transfer *transfer_new(Pump *p, Call *c, double now)
{
    Transfer *t = alloc_resize(&p->alloc, NULL, 0, sizeof *t);
    if (t == NULL)
        return NULL;
    *t = (Transfer){.pump = p,
                    .easy = curl_easy_init(),
                    .call = c,
                    .started = now,
                    .beat = now,
                    .result = {.id = c->id,
                               .first_byte_ms = -1,
                               .first_event_ms = -1,
                               .queue_ms = now - c->submitted}};
    if (t->easy == NULL) {
        alloc_free(&p->alloc, t, sizeof *t);
        return NULL;
    }
    c->transfer = t;
    memcpy(t->origin, c->host->origin, ORIGIN_SIZE);
    return t;
}

void transfer_free(Transfer *t)
{
    const Alloc *a = &t->pump->alloc;
    curl_easy_cleanup(t->easy);
    call_free(a, t->call);
    sse_free(&t->reader, a);
    buffer_free(&t->result.headers, a);
    buffer_free(&t->result.body, a);
    alloc_free(a, t, sizeof *t);
}

/* ---- options ---- */

static bool set_long(CURL *e, CURLoption option, long value)
{
    return curl_easy_setopt(e, option, value) == CURLE_OK;
}

static bool set_pointer(CURL *e, CURLoption option, const void *value)
{
    return curl_easy_setopt(e, option, value) == CURLE_OK;
}

static bool set_method(CURL *e, const Call *c)
{
    if (strcmp(c->method, "HEAD") == 0)
        return set_long(e, CURLOPT_NOBODY, 1);
    bool post = c->body != NULL || strcmp(c->method, "POST") == 0;
    if (!post)
        return strcmp(c->method, "GET") == 0 || set_pointer(e, CURLOPT_CUSTOMREQUEST, c->method);
    curl_off_t size = (curl_off_t)c->body_size;
    return set_long(e, CURLOPT_POST, 1) &&
           curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, size) == CURLE_OK &&
           set_pointer(e, CURLOPT_POSTFIELDS, c->body != NULL ? c->body : "") &&
           (strcmp(c->method, "POST") == 0 || set_pointer(e, CURLOPT_CUSTOMREQUEST, c->method));
}

/* Options that are the same for every call. NOSIGNAL: the threaded resolver needs no signals, and
 * libcurl writes with MSG_NOSIGNAL. */
static bool set_constants(CURL *e)
{
    curl_easy_reset(e);
#if LIBCURL_VERSION_NUM >= 0x075500
    bool ok = set_pointer(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    bool ok = set_long(e, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    ok = ok && set_long(e, CURLOPT_QUICK_EXIT, 1); /* do not wait for a name lookup when dropped */
#endif
    return ok && set_long(e, CURLOPT_NOSIGNAL, 1) && set_long(e, CURLOPT_TCP_KEEPALIVE, 1) &&
           set_long(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1) &&
           set_pointer(e, CURLOPT_USERAGENT, "ponder/" PONDER_VERSION) &&
           set_long(e, CURLOPT_SSL_VERIFYPEER, 1) && set_long(e, CURLOPT_SSL_VERIFYHOST, 2) &&
           set_long(e, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS) &&
           set_long(e, CURLOPT_FOLLOWLOCATION, 0);
}

/* If a connection dies before its reply, libcurl resends the request up to five times. A resent
 * call may be billed twice, so our caller has to decide: this aborts the second sending. It also
 * checks the address that is actually connected to, after the name lookup. */
static int before_request(void *transfer, char *ip, char *local_ip, int port, int local_port)
{
    Transfer *t = transfer;
    bool again = t->sent;
    (void)local_ip, (void)port, (void)local_port;
    if (t->call->limits.public_only && !address_is_public(ip)) {
        reply_fail(t, "DENIED", "its address is not a public one");
        return CURL_PREREQFUNC_ABORT;
    }
    t->sent = true;
    return again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Child processes must not inherit our connections, and libcurl does not report why
 * it has no socket. */
static curl_socket_t open_socket(void *transfer, curlsocktype purpose, struct curl_sockaddr *to)
{
    Transfer *t = transfer;
    (void)purpose;
    int fd = system_socket(to->family, to->socktype, to->protocol);
    t->no_descriptor = fd < 0 && (errno == EMFILE || errno == ENFILE);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* CURLOPT_CAINFO replaces the system's bundle, but not its directory of authorities. Compression
 * would delay the words of a stream. */
static bool set_options(Transfer *t, const char *url, double now)
{
    CURL *e = t->easy;
    const Call *c = t->call;
    const CallLimits *l = &c->limits;
    const char *encoding = c->stream == SSE_NONE ? "gzip" : "identity";
    double left = fmax(1, (double)l->timeout_ms - (now - t->started));
    bool tls = strncmp(t->origin, "https:", 6) == 0;
    return set_constants(e) &&
           curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, before_request) == CURLE_OK &&
           set_pointer(e, CURLOPT_PREREQDATA, t) && set_pointer(e, CURLOPT_PRIVATE, t) &&
           set_pointer(e, CURLOPT_WRITEDATA, t) && set_pointer(e, CURLOPT_HEADERDATA, t) &&
           curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           set_pointer(e, CURLOPT_OPENSOCKETDATA, t) &&
           curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, reply_on_body) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, reply_on_header) == CURLE_OK &&
           set_pointer(e, CURLOPT_ERRORBUFFER, t->curl_error) && set_pointer(e, CURLOPT_URL, url) &&
           set_long(e, CURLOPT_TIMEOUT_MS, (long)left) &&
           set_long(e, CURLOPT_CONNECTTIMEOUT_MS, (long)l->connect_timeout_ms) &&
           curl_easy_setopt(e, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)l->max_body_bytes) ==
               CURLE_OK &&
           set_long(e, CURLOPT_PIPEWAIT, tls) && set_pointer(e, CURLOPT_HTTPHEADER, c->headers) &&
           set_method(e, c) && set_pointer(e, CURLOPT_ACCEPT_ENCODING, encoding) &&
           (c->ca_file == NULL || set_pointer(e, CURLOPT_CAINFO, c->ca_file)) &&
           set_pointer(e, CURLOPT_PROXY, c->proxy);
}

/* ---- beginning ---- */

static void forget_reply(Transfer *t)
{
    const CallLimits *l = &t->call->limits;
    t->mode = BODY_UNKNOWN;
    t->sent = t->no_descriptor = false;
    t->in_headers = false;
    t->received = 0;
    t->done_at = 0;
    t->curl_error[0] = '\0';
    t->result.headers.size = t->result.body.size = 0;
    sse_free(&t->reader, &t->pump->alloc);
    sse_start(&t->reader, t->call->stream, (size_t)l->max_line_bytes, (size_t)l->max_event_bytes);
}

bool transfer_begin(Transfer *t, double now)
{
    forget_reply(t);
    return set_options(t, t->call->url, now);
}

double transfer_due(const Transfer *t)
{
    if (t->done_at != 0)
        return t->done_at + DONE_GRACE_MS;
    if (t->call->stream == SSE_NONE)
        return INFINITY;
    return t->beat + (double)t->call->limits.idle_timeout_ms;
}

/* ---- ending ---- */

static double info_ms(Transfer *t, CURLINFO info)
{
    curl_off_t us = 0;
    curl_easy_getinfo(t->easy, info, &us);
    return (double)us / 1000;
}

static const char *http_version(Transfer *t)
{
    long version = 0;
    curl_easy_getinfo(t->easy, CURLINFO_HTTP_VERSION, &version);
    switch (version) {
    case CURL_HTTP_VERSION_1_0: return "1.0";
    case CURL_HTTP_VERSION_1_1: return "1.1";
    case CURL_HTTP_VERSION_2_0: return "2";
    default: return NULL;
    }
}

int64_t transfer_connections(const Transfer *t)
{
    long connections = 0;
    curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connections);
    return connections;
}

/* libcurl starts counting again after a redirect, so counts are added up. */
void transfer_measure(Transfer *t, double now)
{
    Result *r = &t->result;
    long status = 0;
    int64_t connections = transfer_connections(t);
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    r->status = status;
    r->http_version = status != 0 ? http_version(t) : NULL;
    r->new_connections += connections;
    r->total_ms = now - t->started;
    double wait = info_ms(t, CURLINFO_TOTAL_TIME_T);
    double first = info_ms(t, CURLINFO_STARTTRANSFER_TIME_T);
    r->first_byte_ms = status != 0 ? fmax(0, r->total_ms - wait + first) : -1;
    if (connections > 0)
        r->connect_ms +=
            fmax(info_ms(t, CURLINFO_CONNECT_TIME_T), info_ms(t, CURLINFO_APPCONNECT_TIME_T));
    r->streamed = t->mode == BODY_STREAM;
    r->done = t->reader.done;
    r->event_id = r->streamed && t->reader.last_id.size > 0 ? &t->reader.last_id : NULL;
    r->retry_ms = r->streamed ? t->reader.retry_ms : -1;
    r->malformed = r->streamed && !r->done && r->events == 0 && t->reader.unknown_lines > 0;
}

static const char *code_of(CURLcode code)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY: return "NO_MEMORY";
    case CURLE_URL_MALFORMAT: return "BAD_REQUEST";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH: return "TLS";
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, or not HTTP at all */
    case CURLE_WRITE_ERROR: return "BAD_REPLY";
    default: return "CONNECT"; /* refused, unknown host, reset, truncated */
    }
}

static void fail_timeout(Transfer *t)
{
    const CallLimits *l = &t->call->limits;
    if (info_ms(t, CURLINFO_PRETRANSFER_TIME_T) == 0 &&
        t->result.total_ms < (double)l->timeout_ms) {
        t->result.timeout = "connect";
        reply_fail(t, "TIMEOUT", "no connection within connect_timeout_ms (%lld)",
                   (long long)l->connect_timeout_ms);
    } else {
        t->result.timeout = "total";
        reply_fail(t, "TIMEOUT", "no complete reply within timeout_ms (%lld)",
                   (long long)l->timeout_ms);
    }
}

static void fail_curl(Transfer *t, CURLcode code)
{
    if (!t->sent && t->no_descriptor)
        reply_fail(t, "CONNECT", "too many open files%s", loop_descriptor_hint(EMFILE));
    if (code == CURLE_OPERATION_TIMEDOUT) {
        fail_timeout(t);
        return;
    }
    if (code == CURLE_FILESIZE_EXCEEDED)
        reply_fail_size(t);
    if (code == CURLE_OUT_OF_MEMORY && t->in_headers)
        reply_fail(t, "TOO_LARGE", "a line of the reply's headers is too long for libcurl");
    if (code == CURLE_ABORTED_BY_CALLBACK)
        reply_fail(t, "CONNECT", "the connection closed before a reply");
    /* For a connection that broke during the TLS handshake libcurl has a text, but no code. */
    const char *text = t->curl_error;
    bool broke = strstr(text, "SSL_ERROR_SYSCALL") != NULL ||
                 strstr(text, "Recv failure") != NULL || strstr(text, "Send failure") != NULL;
    const char *name = code == CURLE_SSL_CONNECT_ERROR && broke ? "CONNECT" : code_of(code);
    if (*text == '\0' || strchr(text, '@') != NULL) /* it may quote a URL with a password */
        text = curl_easy_strerror(code);
    reply_fail(t, name, "%s", text);
}

/* The same origin, or its TLS: http://host:80 and https://host:443. */
static bool is_same_host(const char *from, const char *to)
{
    size_t host = strlen(from) - strlen("http://") - strlen(":80");
    if (strcmp(from, to) == 0)
        return true;
    return strncmp(from, "http://", 7) == 0 && strcmp(from + 7 + host, ":80") == 0 &&
           strncmp(to, "https://", 8) == 0 && strncmp(to + 8, from + 7, host) == 0 &&
           strcmp(to + 8 + host, ":443") == 0;
}

/* Checks a redirect and sets up its request. */
static bool follow(Transfer *t, const char *location, double now)
{
    char origin[ORIGIN_SIZE];
    Call *c = t->call;
    if (t->result.redirects >= c->limits.max_redirects) {
        reply_fail(t, "BAD_REPLY", "more than %lld redirects", (long long)c->limits.max_redirects);
    } else if (!origin_of(location, origin)) {
        reply_fail(t, "BAD_REPLY", "redirect to a URL that is not http or https");
    } else if (strncmp(t->origin, "https:", 6) == 0 && strncmp(origin, "https:", 6) != 0) {
        reply_fail(t, "BAD_REPLY", "redirect from https to http refused");
    } else if (!c->limits.cross_host_redirects && !is_same_host(t->origin, origin)) {
        reply_fail(t, "BAD_REPLY",
                   "redirect to another host refused: %s (cross_host_redirects allows it)", origin);
    } else {
        if (strcmp(origin, t->origin) != 0)
            call_drop_secret_headers(c);
        int64_t status = t->result.status;
        if ((status == 303 && strcmp(c->method, "HEAD") != 0) ||
            ((status == 301 || status == 302) && strcmp(c->method, "POST") == 0))
            call_become_get(c);
        memcpy(t->origin, origin, sizeof origin);
        t->result.redirects++;
        forget_reply(t);
        if (set_options(t, location, now))
            return true;
        reply_fail(t, "NO_MEMORY", "not enough memory to follow a redirect");
    }
    return false;
}

/* Copies the location, since `follow` resets the handle that owns it. */
static bool try_redirect(Transfer *t, double now)
{
    char *location = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
    if (location == NULL || t->call->limits.max_redirects == 0)
        return false;
    location = strdup(location);
    if (location == NULL)
        reply_fail(t, "NO_MEMORY", "not enough memory to follow a redirect");
    bool followed = location != NULL && follow(t, location, now);
    free(location);
    return followed;
}

bool transfer_end(Transfer *t, CURLcode code, double now)
{
    Result *r = &t->result;
    if (t->mode == BODY_STREAM && code == CURLE_OK)
        reply_finish_stream(t);
    transfer_measure(t, now);
    if (r->done) {
        r->code = NULL; /* the reply is complete, whatever happened after [DONE] */
        return false;
    }
    if (code == CURLE_OK && try_redirect(t, now))
        return true;
    if (code != CURLE_OK)
        fail_curl(t, code);
    return false;
}
