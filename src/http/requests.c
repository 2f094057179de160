/*
 * requests.c -- a request from its first byte to the end of its answer; see server.h.
 *
 * While Lua works on a request its connection is suspended: libmicrohttpd ignores it until it is
 * resumed, then calls back again. It does not notice then that the client has disconnected, so we
 * watch the descriptor.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http/parts.h"

enum {
    SLOT_BITS = 32,
    RUNS = 3,        /* without epoll: until what is resumed, its head and its body are written */
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

bool http_enqueue(HttpServer *s, IdQueue *q, int64_t id)
{
    if (!vec_reserve(q, &s->alloc, 1))
        return false;
    vec_push(q, id);
    loop_post(&s->port);
    return true;
}

static int64_t take_id(IdQueue *q)
{
    if (q->first < q->count)
        return q->items[q->first++];
    q->count = q->first = 0;
    return 0;
}

/* Drops the ids of requests that have ended. */
const HttpRequest *http_first_request(HttpServer *s)
{
    IdQueue *q = &s->queue;
    for (; q->first < q->count; q->first++) {
        Request *r = http_find(s, q->items[q->first]);
        if (r != NULL)
            return &r->shown;
    }
    q->count = q->first = 0;
    return NULL;
}

void http_drop_request(HttpServer *s)
{
    Request *r = http_find(s, take_id(&s->queue));
    if (r == NULL)
        return;
    if (r->state == REQUEST_QUEUED)
        r->state = REQUEST_TAKEN;
    buffer_free(&r->body, &s->alloc);
    buffer_free(&r->headers, &s->alloc);
    buffer_free(&r->query, &s->alloc);
}

/* Only ids: the requests themselves may have ended. */
int64_t http_take_news(HttpServer *s, bool *is_gone)
{
    int64_t id = take_id(&s->news);
    *is_gone = id < 0;
    return id < 0 ? -id : id;
}

/* ---- clients that go away ---- */

void http_tell_gone(Request *r)
{
    HttpServer *s = r->server;
    if (r->is_gone || r->state == REQUEST_RECEIVING || r->state == REQUEST_QUEUED ||
        r->state == REQUEST_REFUSED)
        return;
    r->is_gone = true;
    s->stats.gone++;
    http_enqueue(s, &s->news, -r->shown.id);
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

void http_resume(Request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    MHD_resume_connection(r->connection);
    r->server->runs = RUNS;
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

/* ---- the head ---- */

typedef struct Head {
    const char *end;    /* of the line seen last, without its line break */
    size_t bytes;       /* of names and values, each with a NUL */
    int lengths, hosts; /* headers that state the length of the body, and the host */
    long long length;   /* of the body; -1: chunked */
    bool is_odd;        /* it can be read in two ways */
    bool asks_first;    /* the client waits for 100 Continue before it sends the body */
    const char *authorization, *api_key;
} Head;

/* Whether only a line break, or two, separates a line from the next. libmicrohttpd replaces line
 * breaks by NULs, and truncates lines at other NULs; it moves folded lines. */
static bool adjoins(const char *end, const char *next, uintptr_t longest)
{
    uintptr_t gap = (uintptr_t)next - (uintptr_t)end;
    return gap >= 1 && gap <= longest;
}

static bool is_token(const char *name)
{
    const char *c = name;
    while (isalnum((unsigned char)*c) || (*c != '\0' && strchr("!#$%&'*+-.^_`|~", *c) != NULL))
        c++;
    return c > name && *c == '\0';
}

static bool has_control(const char *value)
{
    for (; *value != '\0'; value++)
        if (((unsigned char)*value < ' ' && *value != '\t') || *value == 127)
            return true;
    return false;
}

static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    Head *head = cls;
    (void)kind;
    if (value == NULL) {
        head->is_odd = true;
        return MHD_NO;
    }
    head->is_odd |= !adjoins(head->end, name, 2) || !is_token(name) || has_control(value);
    head->end = value + strlen(value);
    head->bytes += strlen(name) + strlen(value) + 2;
    if (strcasecmp(name, "host") == 0) {
        head->hosts++;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        head->lengths++;
        head->length = -1;
        head->is_odd |= strcasecmp(value, "chunked") != 0;
    } else if (strcasecmp(name, "content-length") == 0) {
        head->lengths++;
        head->length = strtoll(value, NULL, 10);
    } else if (strcasecmp(name, "expect") == 0) {
        head->asks_first = true;
    } else if (strcasecmp(name, "authorization") == 0 && head->authorization == NULL) {
        head->authorization = value;
    } else if (strcasecmp(name, "x-api-key") == 0 && head->api_key == NULL) {
        head->api_key = value;
    }
    return MHD_YES;
}

static Head read_head(const Request *r, const char *method, const char *version)
{
    const Peer *p = r->peer;
    Head head = {.end = version + strlen(version)};
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, read_header, &head);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    head.hosts += head.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_0) == 0; /* needs none */
    head.is_odd |= p->has_blank || info == NULL ||
                   !adjoins(head.end + 1, method + info->header_size, 3) ||
                   method + strlen(method) + 1 != p->uri || p->uri + p->uri_bytes + 1 != version;
    return head;
}

static const char *problem_of(const HttpOptions *o, const Peer *p, const Head *head)
{
    return head->is_odd || head->lengths > 1 || head->hosts != 1      ? "ambiguous_request"
           : p->uri_bytes > (size_t)o->max_header_bytes               ? "uri_too_long"
           : p->has_nul                                               ? "invalid_path"
           : p->uri_bytes + head->bytes > (size_t)o->max_header_bytes ? "headers_too_large"
           : head->length > o->max_body_bytes                         ? "request_too_large"
                                                                      : NULL;
}

/* The number of the key that a request has, from 1; 0: none. The time that it takes does not depend
 * on where keys differ. */
static int key_of(const HttpServer *s, const Head *head)
{
    const char *given = head->api_key != NULL ? head->api_key : "", *bearer = head->authorization;
    if (bearer != NULL && strncasecmp(bearer, "bearer", 6) == 0 && strspn(bearer + 6, " \t") > 0)
        given = bearer + 6 + strspn(bearer + 6, " \t");
    size_t size = strcspn(given, " \t");
    int number = 0, found = 0;
    for (const char *key = s->keys; key != NULL;) {
        size_t length = strcspn(key, "\n");
        unsigned differs = length != size;
        for (size_t i = 0; i < length; i++)
            differs |= (unsigned)(unsigned char)key[i] ^ (unsigned char)(i < size ? given[i] : 0);
        number++;
        found = differs == 0 ? number : found;
        key = key[length] != '\0' ? key + length + 1 : NULL;
    }
    return found;
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

Peer *http_peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
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
    peer->deadline_ms = loop_now_ms() + (double)s->options.body_timeout_ms;
    s->stats.requests++;
    s->stats.running++;
    return r;
}

/* Queues the request for Lua; ignores its connection until Lua answers. */
static bool hand_over(Request *r)
{
    HttpServer *s = r->server;
    if (!collect(r, MHD_HEADER_KIND, &r->headers) ||
        !collect(r, MHD_GET_ARGUMENT_KIND, &r->query) || !http_enqueue(s, &s->queue, r->shown.id))
        return false;
    r->state = REQUEST_QUEUED;
    r->peer->deadline_ms = INFINITY;
    r->suspended = true;
    MHD_suspend_connection(r->connection);
    r->watch = loop_watch(r->peer->fd, LOOP_READ, on_readable, r);
    return true;
}

static enum MHD_Result begin(Request *r, const char *method, const char *version)
{
    HttpServer *s = r->server;
    Head head = read_head(r, method, version);
    r->shown.problem = problem_of(&s->options, r->peer, &head);
    r->shown.key = key_of(s, &head);
    bool is_refused = r->shown.problem != NULL || (s->keys != NULL && r->shown.key == 0);
    if (!is_refused || head.lengths == 0)
        return MHD_YES;
    r->is_early = r->is_at_head = !head.asks_first;
    return hand_over(r) ? MHD_YES : MHD_NO;
}

static bool receive(Request *r, const char *bytes, size_t n)
{
    HttpServer *s = r->server;
    if (r->state != REQUEST_RECEIVING)
        return true; /* its body is dropped */
    if (r->body.size + n > (size_t)s->options.max_body_bytes)
        r->shown.problem = "request_too_large";
    else if (s->stats.body_bytes + (int64_t)n > s->options.max_total_body_bytes)
        r->shown.problem = "overloaded";
    if (r->shown.problem != NULL) {
        buffer_free(&r->body, &s->alloc);
        s->stats.body_bytes -= (int64_t)r->body_bytes;
        r->body_bytes = 0;
        r->is_early = true;
        return hand_over(r);
    }
    s->stats.body_bytes += (int64_t)n;
    r->body_bytes += n;
    return buffer_append(&r->body, &s->alloc, bytes, n);
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    Request *r = *con_cls;
    if (r == NULL) {
        *con_cls = r = new_request(cls, connection, url, method);
        return r != NULL ? begin(r, method, version) : MHD_NO;
    }
    if (*upload_data_size > 0) {
        bool ok = receive(r, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (r->state == REQUEST_RECEIVING)
        return hand_over(r) ? MHD_YES : MHD_NO;
    if (r->state == REQUEST_REFUSED && r->is_at_head) {
        r->is_at_head = false;
        return MHD_YES; /* to the body */
    }
    if (r->response == NULL || r->state == REQUEST_ABORTED)
        return MHD_NO;
    return MHD_queue_response(connection, (unsigned)r->status, r->response);
}

/* ---- ending ---- */

void http_free_request(Request *r)
{
    HttpServer *s = r->server;
    size_t slot = slot_of(r->shown.id);
    loop_end(r->watch);
    s->slots.items[slot] = NULL;
    vec_push(&s->free_slots, (uint32_t)slot); /* reserved in take_slot */
    buffer_free(&r->text, &s->alloc);
    buffer_free(&r->query, &s->alloc);
    buffer_free(&r->headers, &s->alloc);
    buffer_free(&r->body, &s->alloc);
    s->stats.body_bytes -= (int64_t)r->body_bytes;
    s->stats.unsent_bytes -= (int64_t)(r->out.size - r->sent);
    buffer_free(&r->out, &s->alloc);
    if (r->response != NULL)
        MHD_destroy_response(r->response);
    alloc_free(&s->alloc, r, sizeof *r);
    s->stats.running--;
}

void http_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                       enum MHD_RequestTerminationCode how)
{
    Request *r = *con_cls;
    (void)cls, (void)connection;
    if (r == NULL)
        return;
    *con_cls = NULL;
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        http_tell_gone(r);
    http_free_request(r);
}
