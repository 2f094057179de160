/* memory.c -- see memory.h. */
#include "memory.h"

#include "loop/system.h"

#ifdef __SANITIZE_ADDRESS__
#include <assert.h>
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { GIVE_BACK = 128 << 20 /* bytes: less free memory is kept for reuse */ };

Memory memory_new(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    return (Memory){.limit = pages > 0 && page_size > 0 ? (size_t)pages * (size_t)page_size / 4 * 3
                                                        : SIZE_MAX};
}

void memory_limit(Memory *m, size_t bytes)
{
    m->limit = bytes > m->bytes ? bytes : m->bytes;
}

void *memory_resize(void *memory, void *block, size_t old_size, size_t new_size)
{
    Memory *m = memory;
    if (block == NULL)
        old_size = 0; /* Lua passes the kind of object here */
#ifdef __SANITIZE_ADDRESS__
    assert(malloc_usable_size(block) == old_size); /* or `bytes` would be wrong */
#endif
    if (new_size > old_size && new_size - old_size > m->limit - m->bytes)
        return NULL;
    void *other = NULL;
    if (new_size == 0)
        free(block);
    else if ((other = block != NULL ? realloc(block, new_size) : malloc(new_size)) == NULL)
        return NULL;
    m->bytes += new_size - old_size;
    if (m->bytes > m->peak)
        m->peak = m->bytes;
    if (m->bytes < m->peak / 2 && m->peak - m->bytes >= GIVE_BACK) {
        system_trim(); /* by itself malloc returns only what is free above the last block in use */
        m->peak = m->bytes;
    }
    return other;
}
