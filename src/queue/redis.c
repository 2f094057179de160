/* redis.c -- see redis.h. */
#include "queue/redis.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/buffer.h"
#include "core/vec.h"

enum {
    READ_SIZE = 64 * 1024,
    KEEP_OUT = 64 * 1024, /* bytes of an empty `out` to keep */
    KEEP_IN = 256 * 1024, /* bytes of an empty parser to keep */
    MAX_UNSENT = 256 * 1024 * 1024,
    MAX_AHEAD = 1024 * 1024,       /* bytes of replies to read ahead */
    MAX_REPLY = 256 * 1024 * 1024, /* a single one */
    MAX_LINE = 64 * 1024           /* a status, an error, the length of a text */
};

struct Redis {
    LoopPort port;
    Alloc alloc;
    RedisState state;
    CURLM *multi; /* of this connection alone */
    CURL *easy;
    LoopHandle *timer; /* libcurl's, while it connects */
    LoopHandle *watch; /* of the open connection */
    Buffer out;
    size_t sent; /* of `out` */
    redisReader *reader;
    VEC(redisReply *) replies;
    size_t first; /* of `replies` */
    size_t ahead; /* bytes read since `replies` was last empty */
    const char *code;
    char problem[CURL_ERROR_SIZE + 64];
    char curl_error[CURL_ERROR_SIZE];
};

static void fail(Redis *r, const char *code, const char *text)
{
    if (r->state == REDIS_BROKEN)
        return;
    r->state = REDIS_BROKEN;
    r->code = code;
    snprintf(r->problem, sizeof r->problem, "%s", text);
    loop_end(r->watch);
    r->watch = NULL;
    loop_timer_set(r->timer, -1);
    buffer_free(&r->out, &r->alloc);
    r->sent = 0;
    loop_post(&r->port);
}

static void fail_curl(Redis *r, CURLcode error, const char *otherwise)
{
    const char *text = r->curl_error[0] != '\0' ? r->curl_error : curl_easy_strerror(error);
    switch (error) {
    case CURLE_OPERATION_TIMEDOUT: fail(r, "TIMEOUT", text); break;
    case CURLE_OUT_OF_MEMORY: fail(r, "MEMORY", text); break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR: fail(r, "TLS", text); break;
    default: fail(r, otherwise, text);
    }
}

/* ---- an open connection ---- */

/* Parses received bytes into replies. */
static void parse(Redis *r, const char *bytes, size_t n)
{
    void *reply = NULL;
    int status = redisReaderFeed(r->reader, bytes, n);
    r->ahead += n;
    while (status == REDIS_OK) {
        status = redisReaderGetReply(r->reader, &reply);
        if (status == REDIS_OK && reply == NULL) {
            const char *rest = r->reader->buf + r->reader->pos;
            size_t size = r->reader->len - r->reader->pos;
            if (size > MAX_REPLY)
                fail(r, "PROTOCOL", "a reply exceeds 256 MiB");
            else if (size > MAX_LINE && memchr(rest, '\n', MAX_LINE) == NULL) /* searched again */
                fail(r, "PROTOCOL", "a line of a reply exceeds 64 KiB");
            return;
        }
        if (status == REDIS_OK && !vec_reserve(&r->replies, &r->alloc, 1)) {
            freeReplyObject(reply);
            fail(r, "MEMORY", "not enough memory for a reply");
            return;
        }
        if (status == REDIS_OK) {
            vec_push(&r->replies, reply);
            loop_post(&r->port);
        }
    }
    fail(r, r->reader->err == REDIS_ERR_OOM ? "MEMORY" : "PROTOCOL", r->reader->errstr);
}

static bool is_full(const Redis *r)
{
    return r->ahead > MAX_AHEAD && r->first < r->replies.count;
}

static void receive(Redis *r)
{
    char bytes[READ_SIZE];
    size_t n;
    while (r->state == REDIS_OPEN && !is_full(r)) {
        CURLcode error = curl_easy_recv(r->easy, bytes, sizeof bytes, &n);
        if (error == CURLE_AGAIN)
            return;
        if (error != CURLE_OK)
            fail_curl(r, error, "CLOSED");
        else if (n == 0)
            fail(r, "CLOSED", "the server closed the connection");
        else
            parse(r, bytes, n);
    }
}

static void flush(Redis *r)
{
    size_t n;
    while (r->state == REDIS_OPEN && r->sent < r->out.size) {
        CURLcode error = curl_easy_send(r->easy, r->out.data + r->sent, r->out.size - r->sent, &n);
        if (error == CURLE_AGAIN)
            return;
        if (error != CURLE_OK)
            fail_curl(r, error, "CLOSED");
        else
            r->sent += n;
    }
    if (r->state == REDIS_OPEN) {
        buffer_reset(&r->out, &r->alloc, KEEP_OUT);
        r->sent = 0;
    }
}

static void watch_for_more(Redis *r)
{
    if (r->watch == NULL)
        return;
    int events = (is_full(r) ? 0 : LOOP_READ) | (r->sent < r->out.size ? LOOP_WRITE : 0);
    int error = loop_watch_for(r->watch, events);
    if (error != 0)
        fail(r, "CLOSED", strerror(error));
}

/* TLS may have to read in order to write, and the reverse: tries both. Reads first, so that replies
 * sent before the connection closed are not lost. */
static void on_ready(void *redis, int fd, int events)
{
    Redis *r = redis;
    (void)fd, (void)events;
    receive(r);
    flush(r);
    watch_for_more(r);
}

/* ---- connecting ---- */

static void on_connected(Redis *r)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode error = curl_easy_getinfo(r->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (error != CURLE_OK || fd == CURL_SOCKET_BAD) {
        fail_curl(r, error, "CLOSED");
        return;
    }
    loop_timer_set(r->timer, -1);
    r->state = REDIS_OPEN;
    r->watch = loop_watch(fd, LOOP_READ | LOOP_WRITE, on_ready, r);
    if (r->watch == NULL)
        fail(r, "CONNECT", strerror(errno));
    loop_post(&r->port);
}

static void act(Redis *r, curl_socket_t fd, int bits)
{
    int left;
    if (r->state != REDIS_CONNECTING)
        return;
    CURLMcode code = curl_multi_socket_action(r->multi, fd, bits, &left);
    if (code != CURLM_OK)
        fail(r, "CONNECT", curl_multi_strerror(code));
    for (CURLMsg *m; (m = curl_multi_info_read(r->multi, &left)) != NULL;) {
        if (m->msg != CURLMSG_DONE || r->state != REDIS_CONNECTING)
            continue;
        if (m->data.result == CURLE_OK)
            on_connected(r);
        else
            fail_curl(r, m->data.result, "CONNECT");
    }
}

static void on_connecting(void *redis, int fd, int events)
{
    act(redis, fd,
        (events & LOOP_READ ? CURL_CSELECT_IN : 0) | (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0));
}

static void on_due(void *redis)
{
    act(redis, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl wants to watch a socket for other events. If a watch fails, the connection times out. */
static int on_change(CURL *easy, curl_socket_t fd, int what, void *redis, void *known)
{
    Redis *r = redis;
    int events = (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        loop_end(known);
        curl_multi_assign(r->multi, fd, NULL);
    } else if (known != NULL) {
        loop_watch_for(known, events);
    } else {
        curl_multi_assign(r->multi, fd, loop_watch(fd, events, on_connecting, r));
    }
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *redis)
{
    Redis *r = redis;
    (void)multi;
    if (r->state == REDIS_CONNECTING)
        loop_timer_set(r->timer, (double)timeout_ms);
    return 0;
}

static bool set_options(Redis *r, const RedisOptions *o)
{
    CURL *e = r->easy;
    curl_multi_setopt(r->multi, CURLMOPT_SOCKETFUNCTION, on_change);
    curl_multi_setopt(r->multi, CURLMOPT_SOCKETDATA, r);
    curl_multi_setopt(r->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(r->multi, CURLMOPT_TIMERDATA, r);
    return curl_easy_setopt(e, CURLOPT_URL, o->url) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, o->socket_path) == CURLE_OK &&
           (o->ca_file == NULL || curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file) == CURLE_OK) &&
           curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_SSL_ENABLE_ALPN, 0L) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->curl_error) == CURLE_OK &&
           curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms) == CURLE_OK;
}

Redis *redis_open(const Alloc *alloc, const RedisOptions *options)
{
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK) /* may be called more than once */
        return errno = ENOMEM, NULL;
    Redis *r = alloc_resize(alloc, NULL, 0, sizeof *r);
    if (r == NULL)
        return errno = ENOMEM, NULL;
    *r = (Redis){.alloc = *alloc,
                 .multi = curl_multi_init(),
                 .easy = curl_easy_init(),
                 .reader = redisReaderCreate()};
    loop_port_open(&r->port);
    r->timer = loop_timer(on_due, r);
    int error = r->timer == NULL ? errno : 0;
    if (error == 0 &&
        (r->multi == NULL || r->easy == NULL || r->reader == NULL || !set_options(r, options) ||
         curl_multi_add_handle(r->multi, r->easy) != CURLM_OK))
        error = ENOMEM;
    if (error != 0) {
        redis_close(r);
        return errno = error, NULL;
    }
    r->reader->maxbuf = KEEP_IN;
    loop_timer_set(r->timer, 0);
    return r;
}

/* ---- for its owner ---- */

void redis_close(Redis *r)
{
    Alloc alloc = r->alloc;
    flush(r); /* unsent commands, as far as the socket accepts them */
    loop_end(r->watch);
    curl_multi_remove_handle(r->multi, r->easy);
    curl_easy_cleanup(r->easy);
    curl_multi_cleanup(r->multi);
    loop_end(r->timer);
    loop_unpost(&r->port);
    for (size_t i = r->first; i < r->replies.count; i++)
        freeReplyObject(r->replies.items[i]);
    vec_free(&r->replies, &alloc);
    if (r->reader != NULL)
        redisReaderFree(r->reader);
    buffer_free(&r->out, &alloc);
    alloc_free(&alloc, r, sizeof *r);
}

RedisState redis_state(const Redis *r, const char **code, const char **text)
{
    *code = r->code;
    *text = r->problem;
    return r->state;
}

void redis_flush(Redis *r)
{
    flush(r);
    watch_for_more(r);
}

bool redis_send(Redis *r, int count, const char **words, const size_t *sizes)
{
    char *command = NULL;
    if (r->state == REDIS_BROKEN)
        return true;
    if (r->out.size - r->sent > MAX_UNSENT)
        return false;
    int n = redisFormatCommandArgv(&command, count, words, sizes);
    if (n < 0)
        return false;
    buffer_compact(&r->out, &r->sent);
    bool ok = buffer_append(&r->out, &r->alloc, command, (size_t)n);
    redisFreeCommand(command);
    watch_for_more(r);
    return ok;
}

const redisReply *redis_first_reply(const Redis *r)
{
    return r->first < r->replies.count ? r->replies.items[r->first] : NULL;
}

/* The TLS library may hold bytes that the loop does not see, so this reads too. */
void redis_drop_reply(Redis *r)
{
    bool was_full = is_full(r);
    freeReplyObject(r->replies.items[r->first++]);
    if (r->first < r->replies.count)
        return;
    r->first = r->replies.count = 0;
    r->ahead = 0;
    if (was_full) {
        receive(r);
        watch_for_more(r);
    }
}
