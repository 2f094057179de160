/*
 * sse.h -- reads streams of events: server-sent events and JSON lines, byte by byte.
 *
 * A reader is fed pieces of a stream, cut anywhere, and appends whole events to an EventList. It
 * follows the WHATWG event stream format: lines end in CR, LF or CRLF; a byte order mark in front
 * is dropped; `data` lines of one event are joined by LF; `event` names it; the last `id` of a
 * whole event and the last `retry` are kept; comments and all other fields are skipped; an empty
 * line ends an event. Three things go beyond that format, because model servers need them: an event
 * whose data is `[DONE]` ends the stream, a last event counts without its empty line (sse_finish),
 * and lines and events have a size limit.
 */
#ifndef PONDER_CORE_SSE_H
#define PONDER_CORE_SSE_H

#include <stdint.h>

#include "core/buffer.h"
#include "core/vec.h"

/* One event; name and data are offsets into EventList.bytes. `source` says which stream it is of.
 */
typedef struct StreamEvent {
    int64_t source;
    size_t name, name_size;
    size_t data, data_size;
} StreamEvent;

/* Events of any number of streams, in the order in which they ended. */
typedef struct EventList {
    StreamEvent *list;
    size_t count;
    size_t capacity;
    Buffer bytes;
} EventList;

typedef enum SseFormat { SSE_EVENTS, SSE_JSON_LINES } SseFormat;

typedef enum SseStatus {
    SSE_OK,
    SSE_LINE_TOO_LONG,
    SSE_EVENT_TOO_LARGE,
    SSE_NO_MEMORY,
} SseStatus;

typedef struct SseReader {
    SseFormat format;
    size_t max_line;
    size_t max_event;
    SseStatus status;       /* a failure stays */
    bool first_line;        /* a byte order mark may stand here */
    bool skip_lf;           /* the last line ended in CR: an LF that follows belongs to it */
    bool has_data;          /* the event so far has at least one data line */
    bool has_id;            /* and it has an id */
    bool done;              /* [DONE] was read */
    uint64_t unknown_lines; /* lines that are not fields of the format: they are passed over */
    uint64_t data_events;   /* data events so far, without those named `ping` */
    Buffer line;            /* the start of a line whose end has not come yet */
    Buffer name;
    Buffer data;
    Buffer id, last_id; /* of the event so far; of the last whole one that had one */
    int64_t retry_ms;   /* how long to wait before the stream is asked for again; -1: not said */
} SseReader;

/* Starts a new stream, keeping the memory of the last one. A reader of zero bytes is a fresh one.
 */
void sse_start(SseReader *r, const Alloc *a, SseFormat format, size_t max_line, size_t max_event);

/* Reads `n` bytes; whole events go to `out`. After [DONE] and after a failure nothing is read. */
SseStatus sse_feed(SseReader *r, const Alloc *a, const char *bytes, size_t n, EventList *out,
                   int64_t source);

/* The stream ended: what was begun counts as complete. */
SseStatus sse_finish(SseReader *r, const Alloc *a, EventList *out, int64_t source);

void sse_free(SseReader *r, const Alloc *a);

/* Forgets all events; memory beyond a usual batch goes back. */
void event_list_reset(EventList *l, const Alloc *a);

void event_list_free(EventList *l, const Alloc *a);

#endif
