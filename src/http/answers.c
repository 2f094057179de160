/*
 * answers.c -- answers a request, at once or as a stream; see server.h.
 *
 *     http_write --> out --> read_stream (libmicrohttpd asks for more) --> the socket
 *                                 | nothing to send
 *                                 v
 *                             suspended until the next http_write
 */
#include <string.h>

#include "http/parts.h"

enum {
    BLOCK = 8192, /* bytes of a stream that libmicrohttpd asks for at a time */
    KEPT = 4096   /* bytes of an empty `out` to keep */
};

static bool add_headers(struct MHD_Response *response, const char *headers, size_t size)
{
    const char *end = headers + size;
    while (headers < end) {
        const char *value = headers + strlen(headers) + 1;
        if (MHD_add_response_header(response, headers, value) != MHD_YES)
            return false;
        headers = value + strlen(value) + 1;
    }
    return true;
}

static bool answer(Request *r, int status, struct MHD_Response *response, const char *headers,
                   size_t headers_size, RequestState state)
{
    if (response == NULL)
        return false;
    if (!add_headers(response, headers, headers_size)) {
        MHD_destroy_response(response);
        return false;
    }
    r->response = response;
    r->status = status;
    r->state = state;
    http_resume(r);
    return true;
}

bool http_respond(HttpServer *s, int64_t id, int status, const char *headers, size_t headers_size,
                  const char *body, size_t body_size)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_TAKEN)
        return false;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body_size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    return answer(r, status, response, headers, headers_size, REQUEST_ANSWERED);
}

static ssize_t read_stream(void *request, uint64_t position, char *bytes, size_t room)
{
    Request *r = request;
    (void)position;
    size_t left = r->out.size - r->sent;
    if (left > 0) {
        size_t n = left < room ? left : room;
        memcpy(bytes, r->out.data + r->sent, n);
        r->sent += n;
        if (n == left) {
            buffer_reset(&r->out, &r->server->alloc, KEPT);
            r->sent = 0;
        }
        return (ssize_t)n;
    }
    if (r->state == REQUEST_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (r->state == REQUEST_ABORTED)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    r->suspended = true;
    MHD_suspend_connection(r->connection);
    return 0;
}

bool http_begin(HttpServer *s, int64_t id, int status, const char *headers, size_t headers_size)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_TAKEN)
        return false;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, r, NULL);
    return answer(r, status, response, headers, headers_size, REQUEST_STREAMING);
}

bool http_write(HttpServer *s, int64_t id, const char *bytes, size_t n)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_STREAMING)
        return false;
    buffer_compact(&r->out, &r->sent);
    if (r->out.size - r->sent + n > (size_t)s->options.max_unsent_bytes ||
        !buffer_append(&r->out, &s->alloc, bytes, n)) {
        http_fail(r);
        return false;
    }
    http_resume(r);
    return true;
}

bool http_end(HttpServer *s, int64_t id)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_STREAMING)
        return false;
    r->state = REQUEST_ENDED;
    http_resume(r);
    return true;
}

void http_abort(HttpServer *s, int64_t id)
{
    Request *r = http_find(s, id);
    if (r != NULL)
        http_fail(r);
}

/* ---- ending ---- */

void http_free_request(Request *r)
{
    HttpServer *s = r->server;
    size_t slot = (size_t)(r->shown.id & 0xffffffff) - 1;
    loop_end(r->watch);
    s->slots.items[slot] = NULL;
    vec_push(&s->free_slots, (uint32_t)slot); /* reserved in take_slot */
    buffer_free(&r->text, &s->alloc);
    buffer_free(&r->query, &s->alloc);
    buffer_free(&r->headers, &s->alloc);
    buffer_free(&r->body, &s->alloc);
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
