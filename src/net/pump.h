/*
 * pump.h -- many HTTP calls at one time over one libcurl multi handle.
 *
 *      pump_submit          the loop                           pump_take
 *   ------------> queued ------------> in flight ------------> ended ------------> (gone)
 *                 FIFO a host          an easy handle           a Result           pump_drop_result
 *                   |                    |      ^ |
 *                   +---- pump_cancel ---+      +-+ redirect
 *
 * Queued calls are one block of memory each and stay out of the multi handle; only calls in flight
 * have an easy handle, and easy handles are used again. libcurl's callbacks append to buffers with
 * a limit and do nothing else. A pump is for one thread of one process.
 */
#ifndef PONDER_NET_PUMP_H
#define PONDER_NET_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/sse.h"
#include "loop/loop.h"

typedef struct Pump Pump;

/* Limits of one call; each has a default in net_default_limits. */
typedef struct CallLimits {
    int64_t timeout_ms;         /* from leaving the queue to the end */
    int64_t connect_timeout_ms; /* name lookup, TCP and TLS */
    int64_t idle_timeout_ms;    /* streams: without a data event */
    int64_t max_body_bytes;     /* after decompression */
    int64_t max_line_bytes;
    int64_t max_event_bytes;
    int64_t max_header_bytes;
    int64_t max_redirects;
    bool cross_host_redirects; /* what was sent may be sent to another host */
} CallLimits;

extern const CallLimits net_default_limits;

typedef struct PumpOptions {
    int64_t max_in_flight_per_host;
    int64_t max_total;
    int64_t max_queued;
    const char *user_agent; /* as the two below: copied */
    const char *ca_file;    /* of requests that name none; NULL: the system's authorities only */
    const char *proxy;      /* of requests that name none; NULL: as the environment says */
} PumpOptions;

typedef enum StreamKind { STREAM_NONE, STREAM_SSE, STREAM_JSON_LINES } StreamKind;

/* What pump_submit copies. Strings end in NUL; those that may be NULL say so. */
typedef struct Request {
    const char *url;
    const char *method;  /* NULL: POST with a body, else GET */
    const char *headers; /* "name: value" lines, each with its own NUL, one after the other */
    size_t headers_size;
    const char *body; /* NULL: none */
    size_t body_size;
    const char *ca_file; /* NULL: the pump's */
    const char *proxy;   /* NULL: the pump's; "": none */
    StreamKind stream;
    CallLimits limits;
} Request;

enum { NET_ERROR_SIZE = 384 };

/* What became of a call. Times are milliseconds; those before the reply began are -1 if it did not.
 */
typedef struct Result {
    int64_t id;
    int64_t status;      /* 0: no reply began */
    const char *code;    /* NULL: a whole reply arrived */
    const char *timeout; /* with TIMEOUT: "connect", "total", "idle" */
    char error[NET_ERROR_SIZE];
    bool streamed;  /* read as a stream: no body */
    bool done;      /* [DONE] was read */
    bool malformed; /* streamed, but nothing in it was of the format */
    Buffer headers; /* name NUL value NUL..., names in lower case */
    int header_count;
    Buffer body;
    uint64_t events;
    const Buffer *event_id; /* the last one of a stream; NULL: there was none */
    int64_t retry_ms;       /* after which a stream may be asked for again; -1: not said */
    double queue_ms, connect_ms, first_byte_ms, first_event_ms, total_ms;
    int64_t new_connections;
    int64_t redirects;
    const char *http_version; /* NULL: no reply began */
} Result;

typedef struct PumpStats {
    int64_t queued, in_flight, submitted, completed, cancelled, connections, events, hosts;
} PumpStats;

typedef enum PumpStatus {
    PUMP_OK,
    PUMP_NO_MEMORY,
    PUMP_BAD_URL,
    PUMP_QUEUE_FULL,
    PUMP_CURL,    /* libcurl could not start */
    PUMP_NO_LOOP, /* nor the event loop: errno says why */
} PumpStatus;

/* Opens a pump; *out is NULL unless PUMP_OK. */
PumpStatus pump_open(const Alloc *alloc, const PumpOptions *options, Pump **out);

/* Drops every call and closes every connection. In a forked child it only gives memory back. */
void pump_close(Pump *p);

/* Whether this process opened the pump: else only pump_close may be called. */
bool pump_is_ours(const Pump *p);

PumpStatus pump_submit(Pump *p, const Request *request, int64_t *id);

/* Sends, receives and waits until there is something to take, `timeout_ms` have passed (< 0: no
 * limit while calls are pending), or loop_wake was called. Within a loop that others run too there
 * is no need for it: the port says when there is something. */
PumpStatus pump_wait(Pump *p, double timeout_ms);

/* What is posted when there is something to take. */
const LoopPort *pump_port(const Pump *p);

/* Takes the events and results that have come; the events of the last take are forgotten. */
PumpStatus pump_take(Pump *p);

/* The events taken. */
const EventList *pump_events(const Pump *p);

/* The oldest result taken and not yet dropped, or NULL. */
const Result *pump_first_result(const Pump *p);
void pump_drop_result(Pump *p);

/* Lets streams go on that waited for what they had brought to be taken. */
void pump_resume(Pump *p);

/* Forgets a call that is queued or in flight; false when there is none of that id. */
bool pump_cancel(Pump *p, int64_t id);

PumpStatus pump_limit(Pump *p, const char *url, int64_t max_in_flight);

int64_t pump_pending(const Pump *p);
PumpStats pump_stats(const Pump *p);

/* Of libcurl: "7.88.1". */
const char *net_curl_version(void);

#endif
