/*
 * parts.h -- what the files of src/net share: calls, hosts, transfers and the pump.
 */
#ifndef PONDER_NET_PARTS_H
#define PONDER_NET_PARTS_H

#include <curl/curl.h>
#include <sys/types.h>

#include "loop/loop.h"
#include "net/pump.h"

typedef struct NetHost NetHost;
typedef struct Multi Multi;
typedef struct Transfer Transfer;

/* --- call.c: a request while it is queued or in flight; one block of memory --------------- */

typedef struct Call {
    int64_t id;
    struct Call *hash_next;   /* in Pump.buckets */
    struct Call *prev, *next; /* in the queue of its host */
    NetHost *host;
    Transfer *transfer; /* NULL while queued */
    double submitted;
    size_t block_size;
    StreamKind stream;
    CallLimits limits;
    const char *url, *method, *body, *ca_file, *proxy;
    size_t body_size;
    struct curl_slist *headers; /* its nodes and lines are part of the block */
} Call;

Call *call_new(const Alloc *a, const Request *r);
void call_free(const Alloc *a, Call *c);

/* Before a redirect to another origin: only headers that identify nobody stay. */
void call_drop_secret_headers(Call *c);

/* Before a redirect that turns a POST into a GET. */
void call_become_get(Call *c);

/* Whether `text` holds a header's value or the user or password of a URL. */
bool call_leaks(const Call *c, const char *text);

/* The calls of a pump by id, in Pump.buckets. calls_remove answers NULL when there is none. */
void calls_add(Pump *p, Call *c);
Call *calls_remove(Pump *p, int64_t id);

/* --- host.c: scheme, host and port, with the calls that wait for it ----------------------- */

struct NetHost {
    char *origin; /* "https://host:port" */
    size_t origin_size;
    int64_t limit;
    int64_t in_flight;
    bool pinned; /* has a limit of its own: stays without calls */
    Call *first, *last;
};

enum { ORIGIN_SIZE = 320, REMEMBERED_URL_SIZE = 256 };

/* Writes the origin of an http or https URL. */
bool origin_of(const char *url, char out[ORIGIN_SIZE]);

/* The same, remembered until the next other URL; NULL when it is none. */
const char *host_origin(Pump *p, const char *url);

NetHost *host_get(Pump *p, const char *origin);
void host_drop_if_idle(Pump *p, NetHost *h);
void host_push(NetHost *h, Call *c);
void host_push_first(NetHost *h, Call *c);
void host_unlink(NetHost *h, Call *c);
void hosts_free(Pump *p);

/* --- transfer.c: one easy handle and the reply it is reading ------------------------------ */

typedef enum BodyMode { BODY_UNKNOWN, BODY_KEEP, BODY_STREAM, BODY_SKIP } BodyMode;

struct Transfer {
    Pump *pump;
    CURL *easy;
    Call *call;
    Transfer *prev,
        *next; /* in Pump.active; `next` also in the lists that have ended and Pump.spare */
    double started;
    double beat;    /* streams: time of the last data event */
    double done_at; /* time of [DONE] */
    BodyMode mode;
    bool sent; /* the request has begun to go out */
    bool in_headers;
    bool paused;
    bool unwatched;     /* a socket of it could not be watched */
    bool no_descriptor; /* nor opened: the process may have no more */
    Multi *multi;       /* NULL: libcurl does not have it */
    bool usual;         /* the easy handle has the options of a call that is_usual */
    bool stream_type, json_type, html_type; /* what content-type says */
    bool has_location;
    int64_t header_bytes;
    int64_t received;
    char origin[ORIGIN_SIZE]; /* of the URL that is being fetched */
    SseReader reader;
    Result result;
    char curl_error[CURL_ERROR_SIZE];
};

Transfer *transfer_new(Pump *p);
void transfer_free(Transfer *t);

/* Takes up a call: sets the easy handle's options. False when libcurl refuses one. */
bool transfer_begin(Transfer *t, Call *c, double now);

/* libcurl is done with it: fills in the result. True when a redirect makes it go on instead. */
bool transfer_end(Transfer *t, CURLcode code, double now);

/* Whether it failed before it was sent, for want of descriptors. */
bool transfer_lacks_descriptor(const Transfer *t);

/* Says why it failed, unless that was said before; the text must hold no secret. */
void transfer_fail(Transfer *t, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a reply over max_body_bytes. */
void transfer_fail_size(Transfer *t);

/* Fills in times and counts, once it left the multi handle or is about to. */
void transfer_measure(Transfer *t, double now);

/* Connections opened for the request that is under way. */
int64_t transfer_connections(const Transfer *t);

/* When it must be looked at again: its idle limit, or the end of the wait after [DONE]. */
double transfer_due(const Transfer *t);

/* --- reply.c: libcurl's callbacks --------------------------------------------------------- */

size_t reply_on_header(char *line, size_t unit, size_t count, void *arg);
size_t reply_on_body(char *bytes, size_t unit, size_t count, void *arg);

/* The body of a streamed reply came to its end. */
bool reply_finish_stream(Transfer *t);

/* --- multi.c: libcurl's multi handles ------------------------------------------------------ */

/* Gives a transfer to libcurl. False when memory is short. */
bool multi_add(Pump *p, Transfer *t);

/* Takes it back, if libcurl has it. */
void multi_remove(Transfer *t);

/* When the first of libcurl's timers runs out; INFINITY: there is none. */
double multis_due(const Pump *p);

/* What those ask for that have run out. */
CURLMcode multis_serve_timers(Pump *p);

void multis_close(Pump *p);

/* --- flow.c: how calls move ---------------------------------------------------------------- */

/* Keeps a transfer whose call is gone for another call. */
void flow_spare(Pump *p, Transfer *t);

/* A call in flight is cancelled, or has a result. */
void flow_retire(Pump *p, Transfer *t);
void flow_end(Pump *p, Transfer *t);

/* Gives results to the calls that a multi handle has ended. */
void flow_take_ended(Pump *p, CURLM *multi);

/* After libcurl has done something: fills free places, says what is new. */
void flow_settle(Pump *p, CURLMcode code);

/* Sets the timer for the earliest of what falls due; it calls flow_on_due. */
void flow_schedule(Pump *p);
void flow_on_due(void *pump);

/* --- pump.c ------------------------------------------------------------------------------- */

/* In order of time, linked by `next`. */
typedef struct TransferList {
    Transfer *first, *last;
} TransferList;

struct Pump {
    Alloc alloc;
    PumpOptions options;
    char *user_agent, *ca_file, *proxy; /* NULL where not given */
    Multi *multis;
    LoopPort port;
    LoopTimer *timer;  /* for the earliest of what falls due: see flow_schedule */
    double next_check; /* no idle limit passes before this time */
    pid_t owner;
    NetHost **hosts;
    size_t host_count, host_capacity, host_turn;
    char last_url[REMEMBERED_URL_SIZE], last_origin[ORIGIN_SIZE]; /* see host_origin */
    Call **buckets;
    size_t bucket_count;
    Transfer *active, *spare;
    TransferList ended, taken; /* not taken yet; taken and not dropped yet */
    size_t spare_count;
    int64_t room, max_room; /* calls at one time that there are descriptors for */
    bool any_paused, any_unwatched;
    bool starved;   /* there was no memory for a transfer: until one ends */
    bool no_memory; /* to be said at the next take */
    EventList events, taken_events;
    int64_t last_id;
    PumpStats stats;
};

#endif
