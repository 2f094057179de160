/* buffer.h -- a growable array of bytes. */
#ifndef PONDER_CORE_BUFFER_H
#define PONDER_CORE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/alloc.h"

typedef struct Buffer {
    char *data;
    size_t size;
    size_t capacity;
} Buffer;

/* Makes room for `extra` more bytes. False: out of memory, and nothing changes. */
bool buffer_reserve(Buffer *b, const Alloc *a, size_t extra);

/* False: out of memory, and nothing changes. `bytes` must not point into `b`. */
bool buffer_append(Buffer *b, const Alloc *a, const char *bytes, size_t n);

/* Before appending to bytes that are consumed from `*start` on: moves these to the front if a
 * quarter of the buffer precedes them. So it stays small if it is never empty, and few bytes are
 * moved. */
void buffer_compact(Buffer *b, size_t *start);

/* Empties the buffer; frees its memory if that is more than `keep` bytes. */
void buffer_reset(Buffer *b, const Alloc *a, size_t keep);

void buffer_free(Buffer *b, const Alloc *a);

#endif
