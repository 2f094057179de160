/* buffer.c -- see buffer.h. */
#include "core/buffer.h"

#include "core/vec.h"

#include <string.h>

bool buffer_reserve(Buffer *b, const Alloc *a, size_t extra)
{
    return array_reserve(b->data, b->size, b->capacity, a, extra);
}

bool buffer_append(Buffer *b, const Alloc *a, const char *bytes, size_t n)
{
    if (!buffer_reserve(b, a, n))
        return false;
    if (n > 0)
        memcpy(b->data + b->size, bytes, n);
    b->size += n;
    return true;
}

void buffer_compact(Buffer *b, size_t *start)
{
    if (*start == 0 || *start < b->size / 4)
        return;
    b->size -= *start;
    memmove(b->data, b->data + *start, b->size);
    *start = 0;
}

void buffer_reset(Buffer *b, const Alloc *a, size_t keep)
{
    b->size = 0;
    if (b->capacity > keep)
        buffer_free(b, a);
}

void buffer_free(Buffer *b, const Alloc *a)
{
    alloc_free(a, b->data, b->capacity);
    *b = (Buffer){0};
}
