/*
 * alloc.h -- the allocator that the core is given.
 *
 * The signature is that of a Lua allocator, so a state's own (lua_getallocf) can be passed: its
 * limit then covers C and Lua alike, and a test can make any single allocation fail. A failed
 * allocation returns NULL; nothing here aborts.
 */
#ifndef PONDER_CORE_ALLOC_H
#define PONDER_CORE_ALLOC_H

#include <stddef.h>
#include <string.h>

typedef struct Alloc {
    /* nsize == 0 frees `ptr`; else (re)allocates. `osize` is the size `ptr` was allocated with. */
    void *(*fn)(void *ud, void *ptr, size_t osize, size_t nsize);
    void *ud;
} Alloc;

static inline void *alloc_resize(const Alloc *a, void *ptr, size_t osize, size_t nsize)
{
    return a->fn(a->ud, ptr, osize, nsize);
}

static inline void alloc_free(const Alloc *a, void *ptr, size_t osize)
{
    if (ptr != NULL)
        a->fn(a->ud, ptr, osize, 0);
}

/* A copy of `size` bytes; NULL for none, and if memory is short. */
static inline void *alloc_copy(const Alloc *a, const void *bytes, size_t size)
{
    void *copy = size > 0 ? alloc_resize(a, NULL, 0, size) : NULL;
    return copy != NULL ? memcpy(copy, bytes, size) : NULL;
}

#endif
