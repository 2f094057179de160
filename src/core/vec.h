/*
 * vec.h -- growable arrays, used throughout src.
 *
 *     VEC(uint32_t) ids = {0};
 *     if (!vec_reserve(&ids, alloc, 1))
 *         return false;                          out of memory: nothing was changed
 *     vec_push(&ids, 7);
 *     vec_free(&ids, alloc);
 *
 * For a named type, put VEC_OF(T) into a struct.
 */
#ifndef PONDER_CORE_VEC_H
#define PONDER_CORE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/alloc.h"

/* Room for at least `needed` items of `size` bytes, or 1.5 times the old capacity if that is more.
 * On failure returns `items` and leaves *capacity. */
static inline void *vec_grow(const Alloc *alloc, void *items, size_t *capacity, size_t needed,
                             size_t size)
{
    size_t grown = *capacity + *capacity / 2 + 8;
    if (grown < needed)
        grown = needed;
    if (grown > SIZE_MAX / 2 / size)
        return items;
    void *bigger = alloc_resize(alloc, items, *capacity * size, grown * size);
    if (bigger == NULL)
        return items;
    *capacity = grown;
    return bigger;
}

#define VEC_OF(T)                                                                                  \
    T *items;                                                                                      \
    size_t count, capacity
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        VEC_OF(T);                                                                                 \
    }

/* Makes room for `extra` more items; false: out of memory. */
#define vec_reserve(v, alloc, extra)                                                               \
    array_reserve((v)->items, (v)->count, (v)->capacity, alloc, extra)

/* The same for an array whose fields have other names; `capacity` is a size_t. */
#define array_reserve(items, count, capacity, alloc, extra)                                        \
    ((size_t)(extra) <= (capacity) - (count) ||                                                    \
     ((items) = vec_grow(alloc, items, &(capacity), (count) + (size_t)(extra), sizeof *(items)),   \
      (size_t)(extra) <= (capacity) - (count)))

/* Appends an item into reserved room. */
#define vec_push(v, item) ((void)((v)->items[(v)->count++] = (item)))

/* Frees the memory and leaves an empty array. */
#define vec_free(v, alloc)                                                                         \
    (alloc_free(alloc, (v)->items, (v)->capacity * sizeof *(v)->items), (v)->items = NULL,         \
     (void)((v)->count = (v)->capacity = 0))

#endif
