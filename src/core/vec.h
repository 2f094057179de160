/*
 * vec.h -- the growable array of all of src.
 *
 *     VEC(uint32_t) ids = {0};
 *     if (!vec_reserve(&ids, alloc, 1))
 *         return false;                          no memory: nothing was changed
 *     vec_push(&ids, 7);
 *     vec_free(&ids, alloc);
 *
 * An array that other code looks into may be a struct of its own with these three fields.
 */
#ifndef PONDER_CORE_VEC_H
#define PONDER_CORE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/alloc.h"

/* Room for at least `needed` items of `size` bytes, half as many again as before where that is
 * more. On failure `items` and *capacity stay. */
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

/* Fields of an array of T inside a struct, and such a struct without a name. */
#define VEC_OF(T)                                                                                  \
    T *items;                                                                                      \
    size_t count, capacity
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        VEC_OF(T);                                                                                 \
    }

/* Makes room for `extra` more items; false if there is no memory. */
#define vec_reserve(v, alloc, extra)                                                               \
    array_reserve((v)->items, (v)->count, (v)->capacity, alloc, extra)

/* The same for an array whose fields have other names; `capacity` is a size_t. */
#define array_reserve(items, count, capacity, alloc, extra)                                        \
    ((size_t)(extra) <= (capacity) - (count) ||                                                    \
     ((items) = vec_grow(alloc, items, &(capacity), (count) + (size_t)(extra), sizeof *(items)),   \
      (size_t)(extra) <= (capacity) - (count)))

/* Appends an item for which there is room. */
#define vec_push(v, item) ((void)((v)->items[(v)->count++] = (item)))

/* Gives the memory back; the array is empty then. */
#define vec_free(v, alloc)                                                                         \
    (alloc_free(alloc, (v)->items, (v)->capacity * sizeof *(v)->items), (v)->items = NULL,         \
     (void)((v)->count = (v)->capacity = 0))

#endif
