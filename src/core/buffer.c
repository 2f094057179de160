/*
 * buffer.c -- see buffer.h.
 */
#include "core/buffer.h"

#include <stdint.h>
#include <string.h>

enum { BUFFER_FIRST = 256 };

bool buffer_reserve(Buffer *b, const Alloc *a, size_t extra)
{
    if (extra <= b->capacity - b->size)
        return true;
    if (extra > SIZE_MAX / 2 - b->size)
        return false;
    size_t capacity = b->capacity ? b->capacity : BUFFER_FIRST;
    while (capacity < b->size + extra)
        capacity *= 2;
    char *data = alloc_resize(a, b->data, b->capacity, capacity);
    if (data == NULL)
        return false;
    b->data = data;
    b->capacity = capacity;
    return true;
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
