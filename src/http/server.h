/*
 * server.h -- an HTTP/1.1 server on the event loop, over libmicrohttpd (which parses).
 *
 *               whole request               http_first_request
 *   receiving ----------------> queued ------------------------> taken
 *       |      or a problem                                     |    |
 *       | deadline: 408                            http_respond |    | http_begin
 *       v                                                       v    v
 *    (closed)                                              answered  streaming <-+ http_write
 *                                                               |    | http_end  +-+
 *                                                               v    v
 *                                                               (sent)
 *
 * A request that is to be refused (HttpRequest.problem), or that has none of the keys, is queued as
 * soon as that is known, without its body. If its answer comes before the end of the body, it is
 * sent at once; what still arrives is dropped for some seconds, since closing earlier would destroy
 * the answer on its way.
 *
 * If a client goes away while its request is taken or streaming, http_take_news returns its id
 * once, and further calls with that id do nothing. Callbacks of libmicrohttpd append to queues and
 * never touch Lua; the server begins with its LoopPort, which is posted when a queue has something.
 * One thread.
 */
#ifndef PONDER_HTTP_SERVER_H
#define PONDER_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buffer.h"
#include "loop/loop.h"

typedef struct HttpServer HttpServer;

typedef struct HttpOptions {
    int listen_fd; /* bound and listening; http_open takes it, and closes it if it fails */
    int64_t max_connections;
    int64_t max_connections_per_address;
    int64_t max_header_bytes; /* of the path and the headers */
    int64_t max_body_bytes;
    int64_t max_total_body_bytes; /* of all requests that have not ended */
    int64_t max_unsent_bytes;     /* of a stream */
    int64_t header_timeout_ms;
    int64_t body_timeout_ms;
    int64_t idle_timeout_ms; /* between requests */
    const char *keys;        /* one a line, for requests with Authorization: Bearer KEY or
                              * x-api-key: KEY; NULL: none is needed. Copied. */
} HttpOptions;

/* A received request. Its texts live until it is dropped from the queue. */
typedef struct HttpRequest {
    int64_t id;
    const char *method;
    const char *path;      /* percent-decoded, without the query */
    const Buffer *query;   /* name NUL value NUL..., decoded */
    const Buffer *headers; /* the same, the names in lower case */
    const Buffer *body;
    const char *address; /* "127.0.0.1", "unix" */
    const char *problem; /* why to refuse it: "ambiguous_request", "invalid_path", "uri_too_long",
                          * "headers_too_large", "request_too_large", "overloaded"; or NULL */
    int key;             /* the number of the key that it has, from 1; 0: none */
} HttpRequest;

typedef struct HttpStats {
    int64_t connections;  /* open now */
    int64_t requests;     /* received so far */
    int64_t running;      /* requests not fully answered */
    int64_t body_bytes;   /* of these requests */
    int64_t unsent_bytes; /* of streams: they wait for their clients */
    int64_t gone;         /* requests whose client went away */
} HttpStats;

/* Listens at "HOST:PORT" (port 0: any free one), "[V6]:PORT" or "unix:PATH". Returns a descriptor,
 * or -1 with the reason in `error`. `shown` gets the actual address with the port. Replaces a stale
 * socket file of ours; only its owner can connect to the new one. */
int http_listen(const char *address, char shown[300], char error[200]);

/* NULL: out of memory, or libmicrohttpd could not start. */
HttpServer *http_open(const Alloc *alloc, const HttpOptions *options);

/* Closes every connection. */
void http_close(HttpServer *s);

/* Stops accepting connections. */
void http_stop_listening(HttpServer *s);

/* The oldest queued request, or NULL; dropping it makes it a taken one. */
const HttpRequest *http_first_request(HttpServer *s);
void http_drop_request(HttpServer *s);

/* The id of the next request whose client went away while it was taken, or stream that has room
 * again after HTTP_FULL; 0: none. */
int64_t http_take_news(HttpServer *s, bool *is_gone);

/* Answers a request. `headers` are "name NUL value NUL" pairs. False: it no longer waits for an
 * answer, or out of memory. */
bool http_respond(HttpServer *s, int64_t id, int status, const char *headers, size_t headers_size,
                  const char *body, size_t body_size);

typedef enum HttpWritten {
    HTTP_WRITTEN,
    HTTP_FULL, /* not written: max_unsent_bytes wait for the client */
    HTTP_GONE
} HttpWritten;

/* Begins an answer of unknown length, sends more of it, and ends it. If nothing waits to be sent, a
 * piece may be of any size. */
bool http_begin(HttpServer *s, int64_t id, int status, const char *headers, size_t headers_size);
HttpWritten http_write(HttpServer *s, int64_t id, const char *bytes, size_t n);
bool http_end(HttpServer *s, int64_t id);

/* Closes the connection of a request at once. */
void http_abort(HttpServer *s, int64_t id);

HttpStats http_stats(const HttpServer *s);

#endif
