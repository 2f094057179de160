/*
 * buffer.h -- bytes that grow up to a limit.
 */
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

/* Makes room for `extra` more bytes; false when memory is short (the contents stay). */
bool buffer_reserve(Buffer *b, const Alloc *a, size_t extra);

/* Appends; false when memory is short (the contents stay). `bytes` must not point into `b`. */
bool buffer_append(Buffer *b, const Alloc *a, const char *bytes, size_t n);

/* Empties the buffer; memory beyond `keep` bytes goes back. */
void buffer_reset(Buffer *b, const Alloc *a, size_t keep);

/* Empties the buffer and gives all memory back. */
void buffer_free(Buffer *b, const Alloc *a);

#endif
