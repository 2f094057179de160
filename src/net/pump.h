/*
 * pump.h -- many concurrent HTTP calls on libcurl's multi interface.
 *
 *      pump_submit          the loop                           pump_take
 *   ------------> queued ------------> in flight ------------> ended ------------> (freed)
 *               FIFO per host          an easy handle           a Result           pump_drop_result
 *                   |                    |      ^ |
 *                   +---- pump_cancel ---+      +-+ redirect
 *
 * A queued call is one block of memory; only calls in flight have an easy handle. libcurl's
 * callbacks only append to bounded buffers. A pump is for one thread of one process. It begins with
 * its LoopPort, which is posted when there is something to take.
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
    bool cross_host_redirects; /* the request may be sent on to another host */
    bool public_only;          /* the host must have a public address */
} CallLimits;

extern const CallLimits net_default_limits;

/* Whether a numeric address is neither this machine's nor in a private network. */
bool address_is_public(const char *address);

typedef struct PumpOptions {
    int64_t max_in_flight_per_host;
    int64_t max_total;
    int64_t max_queued;
} PumpOptions;

/* Copied by pump_submit. */
typedef struct Request {
    const char *url;
    const char *method;  /* NULL: POST with a body, else GET */
    const char *headers; /* "name: value" lines, each terminated by NUL */
    size_t headers_size;
    const char *body; /* NULL: none */
    size_t body_size;
    const char *ca_file; /* NULL: the system's authorities */
    const char *proxy;   /* NULL: as the environment says; "": none */
    SseFormat stream;
    CallLimits limits;
} Request;

enum { NET_ERROR_SIZE = 384 };

/* The result of a call. Times are in milliseconds, -1 if the reply did not get that far. */
typedef struct Result {
    int64_t id;
    int64_t status;      /* 0: no reply began */
    const char *code;    /* NULL: a complete reply arrived */
    const char *timeout; /* with TIMEOUT: "connect", "total", "idle" */
    char error[NET_ERROR_SIZE];
    bool streamed;  /* read as a stream: no body */
    bool done;      /* [DONE] was read */
    bool malformed; /* streamed, but without a single event of the format */
    Buffer headers; /* name NUL value NUL..., names in lower case */
    int header_count;
    Buffer body;
    uint64_t events;
    const Buffer *event_id; /* the last one of a stream, or NULL */
    int64_t retry_ms;       /* the stream's reconnection time; -1: not given */
    double queue_ms, connect_ms, first_byte_ms, first_event_ms, total_ms;
    int64_t new_connections;
    int64_t redirects;
    const char *http_version; /* NULL: no reply began */
} Result;

typedef struct PumpStats {
    int64_t queued, in_flight, submitted, completed, cancelled, connections, hosts;
} PumpStats;

typedef enum PumpStatus {
    PUMP_OK,
    PUMP_NO_MEMORY,
    PUMP_BAD_URL,
    PUMP_QUEUE_FULL,
    PUMP_CURL,    /* libcurl could not be initialized */
    PUMP_NO_LOOP, /* the event loop could not be opened: see errno */
} PumpStatus;

/* Opens a pump; *out is NULL unless PUMP_OK. */
PumpStatus pump_open(const Alloc *alloc, const PumpOptions *options, Pump **out);

/* Drops all calls and closes all connections. */
void pump_close(Pump *p);

PumpStatus pump_submit(Pump *p, const Request *request, int64_t *id);

/* Takes new events and results; drops the events of the previous take. */
PumpStatus pump_take(Pump *p);

/* The events taken. */
const EventList *pump_events(const Pump *p);

/* The oldest result taken and not yet dropped, or NULL. */
const Result *pump_first_result(const Pump *p);
void pump_drop_result(Pump *p);

/* Resumes streams that were paused because too many events were not taken. */
void pump_resume(Pump *p);

/* Drops a call that is queued or in flight; false: there is no such call. */
bool pump_cancel(Pump *p, int64_t id);

PumpStatus pump_limit(Pump *p, const char *url, int64_t max_in_flight);

int64_t pump_pending(const Pump *p);
PumpStats pump_stats(const Pump *p);

/* libcurl's version: "7.88.1". */
const char *net_curl_version(void);

#endif
