/*
 * sse_fuzz.c -- libFuzzer target for src/core/sse.c. `make fuzz` runs it for a short while.
 *
 * The first bytes of an input pick the format, the limits, how the rest is cut, and which
 * allocation fails, if any. Besides what the sanitizers find, it checks that
 *   - a stream cut into pieces gives the events, the end and the failure of the whole one;
 *   - no event is larger than the limits allow, and [DONE] is never delivered;
 *   - after a failed allocation the reader only reports it, and everything can be freed.
 */
#include <stdlib.h>
#include <string.h>

#include "core/sse.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

enum { HEAD = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Counts down to the allocation that fails; below zero none does. */
static void *counted_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    long *left = ud;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    if (nsize > osize && *left >= 0 && (*left)-- == 0)
        return NULL;
    return realloc(ptr, nsize);
}

typedef struct Run {
    long left; /* of allocations, see counted_alloc */
    Alloc alloc;
    SseReader reader;
    EventList events;
    SseStatus status;
} Run;

/* Each piece is copied to memory of its own size: the sanitizer sees every byte read beyond it. */
static void feed(Run *r, const uint8_t *bytes, size_t n)
{
    char *piece = malloc(n + 1);
    CHECK(piece != NULL);
    memmove(piece + 1, bytes, n);
    r->status = sse_feed(&r->reader, &r->alloc, piece + 1, n, &r->events, 7);
    free(piece);
}

static void run(Run *r, const uint8_t *head, const uint8_t *bytes, size_t n, size_t piece)
{
    r->alloc = (Alloc){counted_alloc, &r->left};
    size_t max_line = head[1] < 8 ? 1 + head[1] : 1 << 16;
    size_t max_event = head[2] < 8 ? 1 + head[2] : 1 << 16;
    sse_start(&r->reader, head[0] & 1 ? SSE_JSON_LINES : SSE_EVENTS, max_line, max_event);
    for (size_t at = 0; at < n; at += piece)
        feed(r, bytes + at, n - at < piece ? n - at : piece);
    r->status = sse_finish(&r->reader, &r->alloc, &r->events, 7);
}

static void finish(Run *r)
{
    sse_free(&r->reader, &r->alloc);
    event_list_free(&r->events, &r->alloc);
}

static void check_events(const Run *r)
{
    const EventList *l = &r->events;
    for (size_t i = 0; i < l->count; i++) {
        const StreamEvent *e = &l->list[i];
        CHECK(e->source == 7);
        CHECK(e->name_size > 0 && e->name + e->name_size <= l->bytes.size);
        CHECK(e->data_size <= r->reader.max_event && e->data + e->data_size <= l->bytes.size);
        CHECK(r->reader.format == SSE_JSON_LINES || e->data_size != 6 ||
              memcmp(l->bytes.data + e->data, "[DONE]", 6) != 0);
    }
}

static void check_equal(const Run *a, const Run *b)
{
    CHECK(a->status == b->status);
    CHECK(a->reader.done == b->reader.done);
    CHECK(a->reader.unknown_lines == b->reader.unknown_lines);
    CHECK(a->reader.data_events == b->reader.data_events);
    CHECK(a->events.count == b->events.count && a->events.bytes.size == b->events.bytes.size);
    for (size_t i = 0; i < a->events.count; i++)
        CHECK(memcmp(&a->events.list[i], &b->events.list[i], sizeof(StreamEvent)) == 0);
    CHECK(a->events.bytes.size == 0 ||
          memcmp(a->events.bytes.data, b->events.bytes.data, a->events.bytes.size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    const uint8_t *bytes = data + HEAD;
    size_t n = size - HEAD;
    Run whole = {.left = -1}, cut = {.left = -1}, failing = {.left = data[4]};
    run(&whole, data, bytes, n, n + 1);
    run(&cut, data, bytes, n, 1 + data[3] % 16);
    run(&failing, data, bytes, n, 1 + data[3]);
    check_events(&whole);
    check_equal(&whole, &cut);
    if (failing.left >= 0)
        check_equal(&whole, &failing);
    else
        CHECK(failing.status == SSE_NO_MEMORY || failing.status == whole.status);
    finish(&whole);
    finish(&cut);
    finish(&failing);
    return 0;
}
