/*
 * reply.c -- libcurl's callbacks: the bytes of a reply.
 *
 * The first non-blank byte of a body decides how it is read:
 *
 *      asked for      status   first byte   content-type        read as
 *      no stream      any      any          any                 body
 *      any            3xx      any          any                 skipped, if it will be followed
 *      any            not 2xx  any          any                 body
 *      events         2xx      { [ <        any                 body (no event stream starts so)
 *      events         2xx      other        text/event-stream   stream
 *      events         2xx      other        json, html          body
 *      events         2xx      other        other, none         stream
 *      JSON lines     2xx      <            any                 body
 *      JSON lines     2xx      other        not html            stream
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "net/parts.h"

enum {
    ABORT = 0, /* a callback's result that ends the transfer */
    MAX_HEADERS = 256,
    MAX_BATCH_BYTES = 8 * 1024 * 1024, /* beyond this, streams pause */
    MAX_BATCH_EVENTS = 64 * 1024,
};

/* ---- failures ---- */

void reply_fail(Transfer *t, const char *code, const char *format, ...)
{
    Result *r = &t->result;
    if (r->code != NULL)
        return;
    r->code = code;
    va_list args;
    va_start(args, format);
    int n = snprintf(r->error, sizeof r->error, "%s: ", t->origin);
    vsnprintf(r->error + n, sizeof r->error - (size_t)n, format, args);
    va_end(args);
}

void reply_fail_size(Transfer *t)
{
    reply_fail(t, "TOO_LARGE", "the reply exceeds max_body_bytes (%lld)",
               (long long)t->call->limits.max_body_bytes);
}

/* ---- headers ---- */

static bool has_word(const char *text, size_t n, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= n; i++)
        if (strncasecmp(text + i, word, size) == 0)
            return true;
    return false;
}

static bool keep_header(Transfer *t, const char *name, size_t name_size, const char *value,
                        size_t size)
{
    Buffer *b = &t->result.headers;
    const Alloc *a = &t->pump->alloc;
    if (!buffer_reserve(b, a, name_size + size + 2))
        return false;
    for (size_t i = 0; i < name_size; i++) {
        char c = name[i];
        b->data[b->size++] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
    }
    return buffer_append(b, a, "", 1) && buffer_append(b, a, value, size) &&
           buffer_append(b, a, "", 1);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool read_header(Transfer *t, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n);
    if (colon == NULL || colon == line || memchr(line, '\0', n) != NULL)
        return true;
    const char *value = colon + 1, *end = line + n;
    while (value < end && is_space(*value))
        value++;
    while (end > value && is_space(end[-1]))
        end--;
    size_t name_size = (size_t)(colon - line), size = (size_t)(end - value);
    if (name_size == 12 && strncasecmp(line, "content-type", 12) == 0) {
        t->stream_type = has_word(value, size, "text/event-stream");
        t->json_type = has_word(value, size, "json");
        t->html_type = has_word(value, size, "html");
    } else if (name_size == 8 && strncasecmp(line, "location", 8) == 0) {
        t->has_location = true;
    }
    if (++t->result.header_count > MAX_HEADERS) {
        reply_fail(t, "TOO_LARGE", "the reply has more than %d headers", MAX_HEADERS);
        return false;
    }
    if (!keep_header(t, line, name_size, value, size)) {
        reply_fail(t, "NO_MEMORY", "not enough memory for the reply's headers");
        return false;
    }
    return true;
}

size_t reply_on_header(char *line, size_t unit, size_t count, void *arg)
{
    Transfer *t = arg;
    size_t n = unit * count;
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        t->in_headers = true; /* also after a 100 Continue */
        t->result.header_count = 0;
        t->header_bytes = 0;
        t->stream_type = t->json_type = t->html_type = t->has_location = false;
        t->result.headers.size = 0;
        return n;
    }
    if (!t->in_headers)
        return n; /* a trailer */
    if (n == 0 || *line == '\r' || *line == '\n') {
        t->in_headers = false;
        return n;
    }
    t->header_bytes += (int64_t)n;
    if (t->header_bytes > t->call->limits.max_header_bytes) {
        reply_fail(t, "TOO_LARGE", "the reply's headers exceed max_header_bytes (%lld)",
                   (long long)t->call->limits.max_header_bytes);
        return ABORT;
    }
    return read_header(t, line, n) ? n : ABORT;
}

/* ---- body ---- */

static void explain_stream_failure(Transfer *t, SseStatus status)
{
    const CallLimits *l = &t->call->limits;
    if (status == SSE_LINE_TOO_LONG)
        reply_fail(t, "TOO_LARGE", "a line of the stream exceeds max_line_bytes (%lld)",
                   (long long)l->max_line_bytes);
    else if (status == SSE_EVENT_TOO_LARGE)
        reply_fail(t, "TOO_LARGE", "an event of the stream exceeds max_event_bytes (%lld)",
                   (long long)l->max_event_bytes);
    else
        reply_fail(t, "NO_MEMORY", "not enough memory for the stream");
}

/* Reads a piece of the stream, or its end (NULL), into events. */
static bool read_stream(Transfer *t, const char *bytes, size_t n)
{
    EventList *out = &t->pump->events;
    const Alloc *a = &t->pump->alloc;
    uint64_t data_events = t->reader.data_events;
    size_t events = out->count;
    SseStatus status = bytes != NULL ? sse_feed(&t->reader, a, bytes, n, out, t->call->id)
                                     : sse_finish(&t->reader, a, out, t->call->id);
    t->result.events += out->count - events;
    if (t->reader.data_events != data_events) {
        t->beat = loop_now_ms();
        if (data_events == 0)
            t->result.first_event_ms = t->beat - t->started;
    }
    if (t->reader.done && t->done_at == 0) {
        t->done_at = loop_now_ms();
        t->pump->next_check = 0; /* this transfer is now due earlier */
    }
    if (status != SSE_OK)
        explain_stream_failure(t, status);
    return status == SSE_OK;
}

bool reply_finish_stream(Transfer *t)
{
    return read_stream(t, NULL, 0);
}

static bool starts_stream(const Transfer *t, unsigned char first)
{
    if (t->call->stream == SSE_JSON_LINES)
        return first != '<' && !t->html_type;
    if (first == '{' || first == '[' || first == '<')
        return false;
    return t->stream_type || !(t->json_type || t->html_type);
}

static BodyMode decide(const Transfer *t, const char *bytes, size_t n)
{
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300 && status < 400 && t->has_location && t->call->limits.max_redirects > 0)
        return BODY_SKIP;
    if (t->call->stream == SSE_NONE || status < 200 || status > 299)
        return BODY_KEEP;
    for (size_t i = 0; i < n; i++)
        if (!is_space(bytes[i]) && memchr("\xEF\xBB\xBF", bytes[i], 3) == NULL)
            return starts_stream(t, (unsigned char)bytes[i]) ? BODY_STREAM : BODY_KEEP;
    return BODY_UNKNOWN; /* only blanks, or a part of a byte order mark */
}

static bool read_body(Transfer *t, const char *bytes, size_t n)
{
    if (t->mode == BODY_UNKNOWN) {
        t->mode = decide(t, bytes, n);
        Buffer *held = &t->result.body; /* the blanks so far */
        if (t->mode == BODY_STREAM && held->size > 0) {
            bool ok = read_stream(t, held->data, held->size);
            held->size = 0;
            if (!ok)
                return false;
        }
    }
    if (t->mode == BODY_STREAM)
        return read_stream(t, bytes, n);
    if (t->mode == BODY_SKIP || buffer_append(&t->result.body, &t->pump->alloc, bytes, n))
        return true;
    reply_fail(t, "NO_MEMORY", "not enough memory for the reply");
    return false;
}

size_t reply_on_body(char *bytes, size_t unit, size_t count, void *arg)
{
    Transfer *t = arg;
    size_t n = unit * count;
    const EventList *batch = &t->pump->events;
    if (t->result.code != NULL)
        return ABORT;
    if (t->mode == BODY_STREAM &&
        (batch->bytes.size >= MAX_BATCH_BYTES || batch->count >= MAX_BATCH_EVENTS)) {
        t->paused = t->pump->any_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    t->received += (int64_t)n;
    if (t->received > t->call->limits.max_body_bytes) {
        reply_fail_size(t);
        return ABORT;
    }
    return read_body(t, bytes, n) ? n : ABORT;
}
