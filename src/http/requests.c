/*
 * requests.c -- a request from its first byte to the end of its answer; see server.h.
 *
 * While Lua works on a request its connection is suspended: libmicrohttpd ignores it until it is
 * resumed, then calls back again. It does not notice then that the client has disconnected, so we
 * watch the descriptor, unless the answer arrives within WATCH_EVERY_MS, as most do.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http/parts.h"

enum {
    WATCH_EVERY_MS = 10,
    SLOT_BITS = 32,
    PAIRS_ROOM = 512 /* bytes: the headers of most requests need no more */
};

/* ---- ids ---- */

static size_t slot_of(int64_t id)
{
    return (size_t)(id & 0xffffffff) - 1;
}

Request *http_find(const HttpServer *s, int64_t id)
{
    size_t slot = slot_of(id);
    if (id <= 0 || slot >= s->slots.count || s->slots.items[slot] == NULL ||
        s->slots.items[slot]->shown.id != id)
        return NULL;
    return s->slots.items[slot];
}

static bool take_slot(HttpServer *s, Request *r)
{
    size_t slot = s->slots.count;
    if (s->free_slots.count > 0) {
        slot = s->free_slots.items[--s->free_slots.count];
    } else if (!vec_reserve(&s->slots, &s->alloc, 1) ||
               !vec_reserve(&s->free_slots, &s->alloc, s->slots.count + 1)) {
        return false;
    } else {
        s->slots.count++;
    }
    s->slots.items[slot] = r;
    s->generation = (s->generation + 1) & 0x7fffffff;
    r->shown.id = (int64_t)((uint64_t)s->generation << SLOT_BITS | (slot + 1));
    return true;
}

/* ---- queues of ids ---- */

/* The first request of a queue that has not ended; drops those that have. */
static Request *first_of(HttpServer *s, IdQueue *q, size_t *first)
{
    while (*first < q->count) {
        Request *r = http_find(s, q->items[*first]);
        if (r != NULL)
            return r;
        ++*first;
    }
    q->count = *first = 0;
    return NULL;
}

static bool enqueue(HttpServer *s, IdQueue *q, int64_t id)
{
    if (!vec_reserve(q, &s->alloc, 1))
        return false;
    vec_push(q, id);
    loop_post(&s->port);
    return true;
}

const HttpRequest *http_first_request(HttpServer *s)
{
    Request *r = first_of(s, &s->queue, &s->queue_first);
    return r != NULL ? &r->shown : NULL;
}

void http_drop_request(HttpServer *s)
{
    Request *r = http_find(s, s->queue.items[s->queue_first++]);
    if (r == NULL)
        return;
    if (r->state == REQUEST_QUEUED)
        r->state = REQUEST_TAKEN;
    buffer_free(&r->body, &s->alloc);
    buffer_free(&r->headers, &s->alloc);
    buffer_free(&r->query, &s->alloc);
}

/* Only the id: the request itself may have ended. */
int64_t http_take_gone(HttpServer *s)
{
    if (s->gone_first < s->gone.count)
        return s->gone.items[s->gone_first++];
    s->gone.count = s->gone_first = 0;
    return 0;
}

/* ---- clients that go away ---- */

void http_tell_gone(Request *r)
{
    HttpServer *s = r->server;
    if (r->is_gone || r->state == REQUEST_RECEIVING || r->state == REQUEST_QUEUED)
        return;
    r->is_gone = true;
    s->stats.gone++;
    enqueue(s, &s->gone, r->shown.id);
}

static void on_readable(void *request, int fd, int events)
{
    Request *r = request;
    char byte;
    (void)events;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) { /* the next request, which waits for the end of this one */
        loop_watch_for(r->watch, 0);
        return;
    }
    http_tell_gone(r);
    http_fail(r);
}

static void watch_soon(HttpServer *s)
{
    if (!s->watching)
        loop_timer_set(s->watch_timer, WATCH_EVERY_MS);
    s->watching = true;
}

static bool is_unwatched(const Request *r)
{
    return r != NULL && r->watch == NULL &&
           (r->state == REQUEST_TAKEN || r->state == REQUEST_QUEUED ||
            r->state == REQUEST_STREAMING);
}

/* Watches the requests that it finds for the second time. */
void http_on_watch_due(void *server)
{
    HttpServer *s = server;
    s->watching = false;
    for (size_t i = 0; i < s->slots.count; i++) {
        Request *r = s->slots.items[i];
        if (!is_unwatched(r))
            continue;
        if (r->is_slow)
            r->watch = loop_watch(r->peer->fd, LOOP_READ, on_readable, r);
        else
            watch_soon(s);
        r->is_slow = true;
    }
}

void http_resume(Request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    MHD_resume_connection(r->connection);
    loop_timer_set(r->server->run_timer, 0);
}

/* Closes the connection. */
void http_fail(Request *r)
{
    loop_end(r->watch);
    r->watch = NULL;
    r->state = REQUEST_ABORTED;
    shutdown(r->peer->fd, SHUT_RDWR);
    http_resume(r);
}

/* ---- refusing by the headers ---- */

/* An ambiguous length or host, which a proxy in front of us may have read the other way (request
 * smuggling); and a body announced to be over the limit by a client that waits for 100 Continue. */

#define ERROR(message, code)                                                                       \
    "{\"error\":{\"message\":\"" message                                                           \
    "\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"" code "\"}}"

static const char ambiguous[] =
    ERROR("the length or the host of the request can be read in two ways", "ambiguous_request");
static const char too_large[] = ERROR("the body is over the limit of bytes", "request_too_large");

typedef struct Seen {
    int lengths, hosts; /* headers that say so */
    long long length;
    bool is_odd; /* a name before a blank and a colon; an encoding of which the end is not known */
    bool asks_leave;
} Seen;

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    Seen *seen = cls;
    size_t length = strlen(name);
    (void)kind;
    if (length > 0 && strchr(" \t", name[length - 1]) != NULL) {
        seen->is_odd = true;
    } else if (strcasecmp(name, "host") == 0) {
        seen->hosts++;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        seen->lengths++;
        seen->is_odd |= value == NULL || strcasecmp(value, "chunked") != 0;
    } else if (strcasecmp(name, "content-length") == 0) {
        seen->lengths++;
        seen->length = value != NULL ? atoll(value) : 0;
    } else if (strcasecmp(name, "expect") == 0) {
        seen->asks_leave = true;
    }
    return MHD_YES;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *body,
                              size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static bool is_refused(const HttpServer *s, struct MHD_Connection *connection,
                       enum MHD_Result *result)
{
    Seen seen = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &seen);
    if (seen.lengths > 1 || seen.hosts > 1 || seen.is_odd)
        *result = refuse(connection, 400, ambiguous, sizeof ambiguous - 1);
    else if (seen.asks_leave && seen.length > s->options.max_body_bytes)
        *result = refuse(connection, 413, too_large, sizeof too_large - 1);
    else
        return false;
    return true;
}

/* ---- receiving ---- */

typedef struct PairList {
    Buffer *buffer;
    const Alloc *alloc;
    bool failed;
} PairList;

static enum MHD_Result add_pair(void *list, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    PairList *to = list;
    size_t start = to->buffer->size;
    if (value == NULL)
        value = "";
    if ((start == 0 && !buffer_reserve(to->buffer, to->alloc, PAIRS_ROOM)) ||
        !buffer_append(to->buffer, to->alloc, name, strlen(name) + 1) ||
        !buffer_append(to->buffer, to->alloc, value, strlen(value) + 1)) {
        to->failed = true;
        return MHD_NO;
    }
    for (char *c = to->buffer->data + start; kind == MHD_HEADER_KIND && *c != '\0'; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
    return MHD_YES;
}

static bool collect(Request *r, enum MHD_ValueKind kind, Buffer *buffer)
{
    PairList to = {buffer, &r->server->alloc, false};
    MHD_get_connection_values(r->connection, kind, add_pair, &to);
    return !to.failed;
}

static Request *new_request(HttpServer *s, struct MHD_Connection *connection, const char *url,
                            const char *method)
{
    Peer *peer = http_peer_of(connection);
    Request *r = peer != NULL ? alloc_resize(&s->alloc, NULL, 0, sizeof *r) : NULL;
    if (r == NULL)
        return NULL;
    *r = (Request){.server = s, .connection = connection, .peer = peer};
    size_t method_size = strlen(method) + 1;
    if (!buffer_append(&r->text, &s->alloc, method, method_size) ||
        !buffer_append(&r->text, &s->alloc, url, strlen(url) + 1) || !take_slot(s, r)) {
        buffer_free(&r->text, &s->alloc);
        alloc_free(&s->alloc, r, sizeof *r);
        return NULL;
    }
    r->shown.method = r->text.data;
    r->shown.path = r->text.data + method_size;
    r->shown.query = &r->query;
    r->shown.headers = &r->headers;
    r->shown.body = &r->body;
    r->shown.address = peer->address;
    r->shown.refusal = peer->uri_bytes > (size_t)s->options.max_header_bytes ? 414
                       : peer->has_nul                                       ? 400
                                                                             : 0;
    peer->deadline_ms = loop_now_ms() + (double)s->options.body_timeout_ms;
    s->stats.requests++;
    s->stats.running++;
    return r;
}

static bool receive(Request *r, const char *bytes, size_t n)
{
    HttpServer *s = r->server;
    if (r->shown.refusal == 0 && r->body.size + n > (size_t)s->options.max_body_bytes) {
        r->shown.refusal = 413;
        buffer_free(&r->body, &s->alloc);
    }
    return r->shown.refusal != 0 || buffer_append(&r->body, &s->alloc, bytes, n);
}

/* The request is complete: queues it for Lua. */
static bool hand_over(Request *r)
{
    HttpServer *s = r->server;
    if (!collect(r, MHD_HEADER_KIND, &r->headers) ||
        !collect(r, MHD_GET_ARGUMENT_KIND, &r->query) || !enqueue(s, &s->queue, r->shown.id))
        return false;
    if (r->shown.refusal == 0 &&
        r->peer->uri_bytes + r->headers.size > (size_t)s->options.max_header_bytes)
        r->shown.refusal = 431;
    r->state = REQUEST_QUEUED;
    r->peer->deadline_ms = INFINITY;
    r->suspended = true;
    MHD_suspend_connection(r->connection);
    watch_soon(s);
    return true;
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    HttpServer *s = cls;
    Request *r = *con_cls;
    (void)version;
    enum MHD_Result refused;
    if (r == NULL) {
        if (is_refused(s, connection, &refused))
            return refused;
        *con_cls = r = new_request(s, connection, url, method);
        return r != NULL ? MHD_YES : MHD_NO;
    }
    if (*upload_data_size > 0) {
        bool ok = receive(r, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (r->state == REQUEST_RECEIVING)
        return hand_over(r) ? MHD_YES : MHD_NO;
    if (r->response == NULL || r->state == REQUEST_ABORTED)
        return MHD_NO;
    return MHD_queue_response(connection, (unsigned)r->status, r->response);
}
