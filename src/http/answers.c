/*
 * answers.c -- answers a request, at once or as a stream; see server.h.
 *
 *     http_write --> out --> read_stream (libmicrohttpd asks for more) --> the socket
 *                                 | nothing to send
 *                                 v
 *                             suspended until the next http_write
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/parts.h"

enum {
    PIECE = 8192,    /* bytes of a stream that libmicrohttpd asks for at a time */
    KEPT = 4096,     /* bytes of an empty `out` to keep */
    LINGER_MS = 5000 /* how long the rest of a body is dropped after its request was refused */
};

static bool answer(Request *r, int status, struct MHD_Response *response, const char *headers,
                   size_t headers_size, RequestState state)
{
    if (response == NULL)
        return false;
    for (const char *end = headers + headers_size, *value; headers < end;
         headers = value + strlen(value) + 1) {
        value = headers + strlen(headers) + 1;
        if (MHD_add_response_header(response, headers, value) != MHD_YES) {
            MHD_destroy_response(response);
            return false;
        }
    }
    r->response = response;
    r->status = status;
    r->state = state;
    http_resume(r);
    return true;
}

static bool append_text(Buffer *b, const Alloc *alloc, const char *text)
{
    return buffer_append(b, alloc, text, strlen(text));
}

/* Writes an answer past libmicrohttpd, which would first read the body to its end. */
static bool refuse(Request *r, int status, const char *headers, size_t headers_size,
                   const char *body, size_t body_size)
{
    const Alloc *alloc = &r->server->alloc;
    const char *end = headers + headers_size;
    Buffer b = {0};
    char line[200];
    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %zu\r\n",
             status, MHD_get_reason_phrase_for((unsigned)status), body_size);
    bool ok = append_text(&b, alloc, line);
    while (ok && headers < end) {
        const char *value = headers + strlen(headers) + 1;
        ok = append_text(&b, alloc, headers) && append_text(&b, alloc, ": ") &&
             append_text(&b, alloc, value) && append_text(&b, alloc, "\r\n");
        headers = value + strlen(value) + 1;
    }
    ok = ok && append_text(&b, alloc, "\r\n") &&
         (strcmp(r->shown.method, "HEAD") == 0 || buffer_append(&b, alloc, body, body_size)) &&
         send(r->peer->fd, b.data, b.size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)b.size;
    buffer_free(&b, alloc);
    shutdown(r->peer->fd, SHUT_WR);
    r->state = REQUEST_REFUSED;
    r->peer->is_answered = true;
    r->peer->deadline_ms = loop_now_ms() + LINGER_MS;
    http_resume(r);
    return ok;
}

bool http_respond(HttpServer *s, int64_t id, int status, const char *headers, size_t headers_size,
                  const char *body, size_t body_size)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_TAKEN)
        return false;
    if (r->is_early)
        return refuse(r, status, headers, headers_size, body, body_size);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body_size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (response != NULL && r->shown.problem != NULL)
        MHD_add_response_header(response, "Connection", "close");
    return answer(r, status, response, headers, headers_size, REQUEST_ANSWERED);
}

/* ---- streams ---- */

static size_t unsent(const Request *r)
{
    return r->out.size - r->sent;
}

static ssize_t read_stream(void *request, uint64_t position, char *bytes, size_t room)
{
    Request *r = request;
    HttpServer *s = r->server;
    (void)position;
    size_t left = unsent(r);
    if (left > 0) {
        size_t n = left < room ? left : room;
        memcpy(bytes, r->out.data + r->sent, n);
        r->sent += n;
        s->stats.unsent_bytes -= (int64_t)n;
        if (n == left) {
            buffer_reset(&r->out, &s->alloc, KEPT);
            r->sent = 0;
        }
        if (r->wants_room && left - n <= (size_t)s->options.max_unsent_bytes / 2)
            r->wants_room = !http_enqueue(s, &s->news, r->shown.id);
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
    if (r == NULL || r->state != REQUEST_TAKEN || r->is_early)
        return false;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, read_stream, r, NULL);
    return answer(r, status, response, headers, headers_size, REQUEST_STREAMING);
}

HttpWritten http_write(HttpServer *s, int64_t id, const char *bytes, size_t n)
{
    Request *r = http_find(s, id);
    if (r == NULL || r->state != REQUEST_STREAMING)
        return HTTP_GONE;
    if (unsent(r) > 0 && unsent(r) + n > (size_t)s->options.max_unsent_bytes) {
        r->wants_room = true;
        return HTTP_FULL;
    }
    buffer_compact(&r->out, &r->sent);
    if (!buffer_append(&r->out, &s->alloc, bytes, n)) {
        http_fail(r);
        return HTTP_GONE;
    }
    s->stats.unsent_bytes += (int64_t)n;
    http_resume(r);
    return HTTP_WRITTEN;
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
