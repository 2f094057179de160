/*
 * parts.h -- what the files of src/http share. Each uses those before it:
 *
 *     requests.c   a request from its first byte to the end of its answer
 *     answers.c    whole answers, and streams
 *     server.c     the daemon, its connections and their deadlines
 */
#ifndef PONDER_HTTP_PARTS_H
#define PONDER_HTTP_PARTS_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "core/vec.h"
#include "http/server.h"

/* One connection, from accept to close. */
typedef struct Peer {
    int fd;
    double deadline_ms; /* for receiving the request; INFINITY: none */
    bool is_answered;   /* while the body still arrives, which is dropped until the deadline */
    char address[64];   /* "127.0.0.1", "unix" */
    const char *uri;    /* of the current request, in libmicrohttpd's memory */
    size_t uri_bytes;   /* as sent */
    bool has_nul;       /* it has an encoded NUL, at which libmicrohttpd truncates it */
    bool has_blank;
    LIST_ENTRY(Peer) link;
} Peer;

typedef enum RequestState {
    REQUEST_RECEIVING,
    REQUEST_QUEUED,
    REQUEST_TAKEN,
    REQUEST_ANSWERED,
    REQUEST_REFUSED, /* answered before its body had arrived */
    REQUEST_STREAMING,
    REQUEST_ENDED,  /* streaming, with nothing more to write */
    REQUEST_ABORTED /* its connection is being closed */
} RequestState;

typedef struct Request {
    HttpServer *server;
    struct MHD_Connection *connection;
    Peer *peer;
    RequestState state;
    bool suspended;
    bool is_early;   /* Lua has it before its body has ended */
    bool is_at_head; /* as soon as its headers had arrived: libmicrohttpd shows these again */
    bool is_gone;    /* its client went away, and that was queued */
    HttpRequest shown;
    Buffer text; /* method NUL path NUL */
    Buffer query, headers, body;
    size_t body_bytes; /* counted in `stats` until the request ends */
    Buffer out;        /* of a stream, from `sent` on */
    size_t sent;
    bool wants_room; /* HTTP_FULL was returned */
    struct MHD_Response *response;
    int status;
    LoopHandle *watch; /* notices that the client goes away */
} Request;

typedef struct IdQueue {
    VEC_OF(int64_t);
    size_t first;
} IdQueue;

struct HttpServer {
    LoopPort port;
    Alloc alloc;
    HttpOptions options;
    struct MHD_Daemon *daemon;
    LoopHandle *watch;
    LoopHandle *run_timer;      /* when libmicrohttpd wants to run again */
    int runs;                   /* that it needs at once, without epoll */
    LoopHandle *deadline_timer; /* once a second while there are peers */
    LIST_HEAD(, Peer) peers;
    VEC(Request *) slots; /* a request's id is slot + 1 + its generation * 2^32 */
    VEC(uint32_t) free_slots;
    int64_t generation;
    IdQueue queue;
    IdQueue news; /* streams with room again, and, negated, requests whose client went away */
    char *keys;   /* of `options` */
    HttpStats stats;
};

/* requests.c: libmicrohttpd's callbacks. */
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);
void http_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                       enum MHD_RequestTerminationCode how);
Peer *http_peer_of(struct MHD_Connection *connection);

/* The request, or NULL once it has ended. */
Request *http_find(const HttpServer *s, int64_t id);
bool http_enqueue(HttpServer *s, IdQueue *q, int64_t id);
void http_resume(Request *r);
void http_tell_gone(Request *r);
void http_fail(Request *r);
void http_free_request(Request *r);

#endif
