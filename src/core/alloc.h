/*
 * alloc.h -- the one way the core gets memory.
 *
 * The signature is that of a Lua allocator, so that a state's own allocator (lua_getallocf) serves:
 * its limit then covers C and Lua alike, and a test can make any single allocation fail.
 * Nothing here aborts: an allocation that fails returns NULL and the caller says so.
 */
#ifndef PONDER_CORE_ALLOC_H
#define PONDER_CORE_ALLOC_H

#include <stddef.h>

typedef struct Alloc {
    /* nsize == 0 frees `ptr`; else (re)allocates. `osize` is the size that `ptr` was given. */
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

#endif
