/* sse.c -- see sse.h. */
#include "core/sse.h"

#include <string.h>

enum { KEEP_BATCH = 4 * 1024 * 1024 /* bytes of a list reused for the next batch */ };

static const char DEFAULT_NAME[] = "message";
static const char DONE[] = "[DONE]";
static const char BYTE_ORDER_MARK[] = "\xEF\xBB\xBF";

static bool equals(const char *bytes, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

/* ---- EventList ---- */

static bool list_add(EventList *l, const Alloc *a, int64_t source, const char *name,
                     size_t name_size, const char *data, size_t data_size)
{
    if (!array_reserve(l->list, l->count, l->capacity, a, 1) ||
        !buffer_reserve(&l->bytes, a, name_size + data_size))
        return false;
    StreamEvent *e = &l->list[l->count++];
    *e = (StreamEvent){source, l->bytes.size, name_size, l->bytes.size + name_size, data_size};
    buffer_append(&l->bytes, a, name, name_size);
    buffer_append(&l->bytes, a, data, data_size);
    return true;
}

void event_list_reset(EventList *l, const Alloc *a)
{
    l->count = 0;
    buffer_reset(&l->bytes, a, KEEP_BATCH);
    if (l->capacity * sizeof(StreamEvent) > KEEP_BATCH)
        event_list_free(l, a);
}

void event_list_free(EventList *l, const Alloc *a)
{
    alloc_free(a, l->list, l->capacity * sizeof(StreamEvent));
    buffer_free(&l->bytes, a);
    *l = (EventList){0};
}

/* ---- one line ---- */

/* An empty line ends the event, which only counts if it has data lines. */
static void end_event(SseReader *r, const Alloc *a, EventList *out, int64_t source)
{
    if (r->has_data && equals(r->data.data, r->data.size, DONE)) {
        r->done = true;
    } else if (r->has_data) {
        const char *name = r->name.size ? r->name.data : DEFAULT_NAME;
        size_t name_size = r->name.size ? r->name.size : strlen(DEFAULT_NAME);
        if (!list_add(out, a, source, name, name_size, r->data.data, r->data.size))
            r->status = SSE_NO_MEMORY;
        if (!equals(name, name_size, "ping"))
            r->data_events++;
    }
    if (r->has_id) {
        Buffer before = r->last_id;
        r->last_id = r->id;
        r->id = before;
    }
    r->has_data = r->has_id = false;
    r->data.size = 0;
    r->name.size = 0;
}

static void add_data(SseReader *r, const Alloc *a, const char *value, size_t n)
{
    size_t joint = r->has_data ? 1 : 0; /* the LF between two lines counts */
    if (n + joint > r->max_event - r->data.size) {
        r->status = SSE_EVENT_TOO_LARGE;
        return;
    }
    if (!buffer_append(&r->data, a, "\n", joint) || !buffer_append(&r->data, a, value, n))
        r->status = SSE_NO_MEMORY;
    r->has_data = true;
}

static void read_retry(SseReader *r, const char *digits, size_t n)
{
    enum { MAX_DIGITS = 9 };
    int64_t ms = 0;
    for (size_t i = 0; i < n; i++) {
        if (digits[i] < '0' || digits[i] > '9' || n > MAX_DIGITS)
            return;
        ms = ms * 10 + digits[i] - '0';
    }
    if (n > 0)
        r->retry_ms = ms;
}

static void read_field(SseReader *r, const Alloc *a, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);
    size_t field = colon != NULL ? (size_t)(colon - line) : n;
    const char *value = colon != NULL ? colon + 1 : line + n;
    if (value < line + n && *value == ' ')
        value++;
    size_t size = (size_t)(line + n - value);
    if (equals(line, field, "data")) {
        add_data(r, a, value, size);
    } else if (equals(line, field, "event")) {
        r->name.size = 0;
        if (!buffer_append(&r->name, a, value, size))
            r->status = SSE_NO_MEMORY;
    } else if (equals(line, field, "id")) {
        r->id.size = 0;
        r->has_id = memchr(value, '\0', size) == NULL;
        if (r->has_id && !buffer_append(&r->id, a, value, size))
            r->status = SSE_NO_MEMORY;
    } else if (equals(line, field, "retry")) {
        read_retry(r, value, size);
    } else if (field > 0) {
        r->unknown_lines++;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void read_json_line(SseReader *r, const Alloc *a, const char *line, size_t n, EventList *out,
                           int64_t source)
{
    while (n > 0 && is_blank(line[n - 1]))
        n--;
    while (n > 0 && is_blank(*line))
        line++, n--;
    if (n == 0)
        return;
    if (n > r->max_event)
        r->status = SSE_EVENT_TOO_LARGE;
    else if (!list_add(out, a, source, DEFAULT_NAME, strlen(DEFAULT_NAME), line, n))
        r->status = SSE_NO_MEMORY;
    else
        r->data_events++;
}

static void read_line(SseReader *r, const Alloc *a, const char *line, size_t n, EventList *out,
                      int64_t source)
{
    if (r->first_line && n >= 3 && memcmp(line, BYTE_ORDER_MARK, 3) == 0) {
        line += 3;
        n -= 3;
    }
    r->first_line = false;
    if (r->format == SSE_JSON_LINES)
        read_json_line(r, a, line, n, out, source);
    else if (n == 0)
        end_event(r, a, out, source);
    else
        read_field(r, a, line, n);
}

/* ---- pieces into lines ---- */

static void keep_piece(SseReader *r, const Alloc *a, const char *piece, size_t n)
{
    if (n > r->max_line - r->line.size)
        r->status = SSE_LINE_TOO_LONG;
    else if (!buffer_append(&r->line, a, piece, n))
        r->status = SSE_NO_MEMORY;
}

/* A piece that ends a line. Most lines arrive in one piece and are read in place. */
static void end_line(SseReader *r, const Alloc *a, const char *piece, size_t n, EventList *out,
                     int64_t source)
{
    if (r->line.size > 0) {
        keep_piece(r, a, piece, n);
        if (r->status == SSE_OK)
            read_line(r, a, r->line.data, r->line.size, out, source);
        r->line.size = 0;
    } else if (n > r->max_line) {
        r->status = SSE_LINE_TOO_LONG;
    } else {
        read_line(r, a, piece, n, out, source);
    }
}

SseStatus sse_feed(SseReader *r, const Alloc *a, const char *bytes, size_t n, EventList *out,
                   int64_t source)
{
    const char *at = bytes, *end = bytes + n;
    char cr = r->format == SSE_JSON_LINES ? '\n' : '\r'; /* ends a line, too */
    while (at < end && r->status == SSE_OK && !r->done) {
        if (r->skip_lf && *at == '\n')
            at++;
        r->skip_lf = false;
        const char *stop = at;
        while (stop < end && *stop != '\n' && *stop != cr)
            stop++;
        if (stop == end) {
            keep_piece(r, a, at, (size_t)(end - at));
            break;
        }
        r->skip_lf = *stop == '\r';
        end_line(r, a, at, (size_t)(stop - at), out, source);
        at = stop + 1;
    }
    return r->status;
}

SseStatus sse_finish(SseReader *r, const Alloc *a, EventList *out, int64_t source)
{
    if (r->status == SSE_OK && !r->done && r->line.size > 0)
        end_line(r, a, "", 0, out, source);
    r->has_id = false; /* the event may be truncated: the server has to send it again */
    if (r->status == SSE_OK && !r->done && r->format == SSE_EVENTS)
        end_event(r, a, out, source);
    return r->status;
}

void sse_start(SseReader *r, SseFormat format, size_t max_line, size_t max_event)
{
    *r = (SseReader){.format = format,
                     .max_line = max_line,
                     .max_event = max_event,
                     .first_line = true,
                     .retry_ms = -1};
}

void sse_free(SseReader *r, const Alloc *a)
{
    buffer_free(&r->line, a);
    buffer_free(&r->name, a);
    buffer_free(&r->data, a);
    buffer_free(&r->id, a);
    buffer_free(&r->last_id, a);
    *r = (SseReader){0};
}
