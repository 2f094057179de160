/*
 * sse.h -- reads streams of events: server-sent events and JSON lines, byte by byte.
 *
 * A reader is fed a stream in pieces, cut anywhere, and appends whole events to an EventList. It
 * follows the WHATWG event stream format: lines end in CR, LF or CRLF; a leading byte order mark is
 * dropped; the `data` lines of an event are joined by LF; `event` names it; the last `id` of a
 * whole event and the last `retry` are kept; comments and other fields are skipped; an empty line
 * ends an event. Model servers need three more rules: an event whose data is `[DONE]` ends the
 * stream, the last event counts without its empty line (sse_finish), and lines and events have a
 * size limit.
 */
#ifndef PONDER_CORE_SSE_H
#define PONDER_CORE_SSE_H

#include <stdint.h>

#include "core/buffer.h"
#include "core/vec.h"

/* Name and data are offsets into EventList.bytes; `source` identifies the stream. */
typedef struct StreamEvent {
    int64_t source;
    size_t name, name_size;
    size_t data, data_size;
} StreamEvent;

/* Events of any number of streams, in order of completion. */
typedef struct EventList {
    StreamEvent *list;
    size_t count;
    size_t capacity;
    Buffer bytes;
} EventList;

typedef enum SseFormat { SSE_NONE, SSE_EVENTS, SSE_JSON_LINES } SseFormat;

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
    SseStatus status;       /* a failure is final */
    bool first_line;        /* a byte order mark may follow */
    bool skip_lf;           /* the last line ended in CR: a following LF belongs to it */
    bool has_data;          /* the current event has a data line */
    bool has_id;            /* the current event has an id */
    bool done;              /* [DONE] was read */
    uint64_t unknown_lines; /* skipped lines with fields that the format does not have */
    uint64_t data_events;   /* data events so far, except those named `ping` */
    Buffer line;            /* the beginning of an incomplete line */
    Buffer name;
    Buffer data;
    Buffer id, last_id; /* of the current event; of the last whole event that had one */
    int64_t retry_ms;   /* the server's reconnection time; -1: not given */
} SseReader;

/* Starts a stream: a reader is all zeros before, and after sse_free. */
void sse_start(SseReader *r, SseFormat format, size_t max_line, size_t max_event);

/* Reads `n` bytes and appends whole events to `out`. Does nothing after [DONE] or a failure. */
SseStatus sse_feed(SseReader *r, const Alloc *a, const char *bytes, size_t n, EventList *out,
                   int64_t source);

/* The stream ended: an incomplete line or event counts as complete. */
SseStatus sse_finish(SseReader *r, const Alloc *a, EventList *out, int64_t source);

void sse_free(SseReader *r, const Alloc *a);

/* Drops all events; keeps the memory of a usual batch. */
void event_list_reset(EventList *l, const Alloc *a);

void event_list_free(EventList *l, const Alloc *a);

#endif
