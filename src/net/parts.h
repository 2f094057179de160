/*
 * parts.h -- what the files of src/net share: calls, hosts, transfers and the pump. Each file uses
 * those before it: call, host, reply, transfer, pump.
 */
#ifndef PONDER_NET_PARTS_H
#define PONDER_NET_PARTS_H

#include <curl/curl.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "loop/loop.h"
#include "net/pump.h"

typedef struct NetHost NetHost;
typedef struct Transfer Transfer;

/* ---- call.c: a request while it is queued or in flight; one block of memory ---- */

typedef struct Call {
    int64_t id;
    TAILQ_ENTRY(Call) queued; /* in NetHost.queue */
    NetHost *host;
    Transfer *transfer; /* NULL while queued */
    double submitted;
    size_t block_size;
    SseFormat stream;
    CallLimits limits;
    const char *url, *method, *body, *ca_file, *proxy;
    size_t body_size;
    struct curl_slist *headers; /* its nodes and lines are part of the block */
} Call;

Call *call_new(const Alloc *a, const Request *r);
void call_free(const Alloc *a, Call *c);

/* Before a redirect to another origin: keeps only headers that cannot hold secrets. */
void call_drop_secret_headers(Call *c);

/* Before a redirect that turns a POST into a GET. */
void call_become_get(Call *c);

/* ---- host.c: scheme, host and port, with a queue of calls ---- */

enum { ORIGIN_SIZE = 320 };

struct NetHost {
    char origin[ORIGIN_SIZE]; /* "https://host:port" */
    int64_t limit;
    int64_t in_flight;
    bool pinned; /* pump_limit was called: stays even without calls */
    TAILQ_HEAD(, Call) queue;
};

/* Writes the origin of a URL; false: not an http or https URL. */
bool origin_of(const char *url, char out[ORIGIN_SIZE]);

NetHost *host_get(Pump *p, const char *origin);
void host_drop_if_idle(Pump *p, NetHost *h);
void hosts_free(Pump *p);

/* ---- reply.c: the reply that a transfer is reading; libcurl's callbacks ---- */

typedef enum BodyMode { BODY_UNKNOWN, BODY_KEEP, BODY_STREAM, BODY_SKIP } BodyMode;

struct Transfer {
    Pump *pump;
    CURL *easy;
    Call *call;
    TAILQ_ENTRY(Transfer) link; /* in one of the lists of the pump */
    double started;
    double beat;    /* streams: time of the last data event */
    double done_at; /* time of [DONE] */
    BodyMode mode;
    bool sent; /* the request has begun to go out */
    bool in_headers;
    bool paused;
    bool no_descriptor; /* a socket could not be opened for want of descriptors */
    bool stream_type, json_type, html_type; /* what content-type says */
    bool has_location;
    int64_t header_bytes;
    int64_t received;
    char origin[ORIGIN_SIZE]; /* of the URL that is being fetched */
    SseReader reader;
    Result result;
    char curl_error[CURL_ERROR_SIZE];
};

size_t reply_on_header(char *line, size_t unit, size_t count, void *arg);
size_t reply_on_body(char *bytes, size_t unit, size_t count, void *arg);

/* At the end of a streamed body. */
bool reply_finish_stream(Transfer *t);

/* Sets the error, unless one is set already. The text must not hold secrets. */
void reply_fail(Transfer *t, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void reply_fail_size(Transfer *t);

/* ---- transfer.c: one easy handle ---- */

/* A transfer of the call; NULL: out of memory. */
Transfer *transfer_new(Pump *p, Call *c, double now);

/* Frees the call, too. */
void transfer_free(Transfer *t);

/* Sets the easy handle's options for the call. False: libcurl refuses one. */
bool transfer_begin(Transfer *t, double now);

/* Fills in the result when libcurl is done. True: it follows a redirect instead. */
bool transfer_end(Transfer *t, CURLcode code, double now);

/* Fills in times, counts, and what its stream said. */
void transfer_measure(Transfer *t, double now);

/* Connections opened for the current request. */
int64_t transfer_connections(const Transfer *t);

/* The time of its idle limit, or of the end of the wait after [DONE]. */
double transfer_due(const Transfer *t);

/* ---- pump.c ---- */

typedef TAILQ_HEAD(TransferList, Transfer) TransferList;

struct Pump {
    LoopPort port;
    Alloc alloc;
    PumpOptions options;
    CURLM *multi;
    double curl_due;   /* when libcurl's timer expires; INFINITY: not set */
    LoopHandle *timer; /* see schedule */
    double next_check; /* no transfer is due before this time */
    NetHost **hosts;
    size_t host_count, host_capacity, host_turn;
    TransferList active;
    TransferList ended, taken; /* in order of completion; by pump_take, and not dropped yet */
    int64_t max_total;         /* calls in flight, as far as descriptors allow */
    bool any_paused;
    bool no_memory; /* for the next pump_take to report */
    EventList events, taken_events;
    int64_t last_id;
    PumpStats stats;
};

#endif
