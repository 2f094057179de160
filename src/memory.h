/* memory.h -- the allocator of the Lua state and of C code that uses it: malloc with a limit. */
#ifndef PONDER_MEMORY_H
#define PONDER_MEMORY_H

#include <stddef.h>

typedef struct Memory {
    size_t bytes; /* in use, as requested: without what malloc adds and what libraries take */
    size_t limit; /* of `bytes`: allocations beyond it fail */
    size_t peak;  /* of `bytes`, since free memory was last returned to the system */
} Memory;

/* The limit is three quarters of the machine's memory: a runaway script fails before the machine
 * swaps. (ponder.cli.shared.memory lowers it in a control group.) */
Memory memory_new(void);

/* A lua_Alloc; `memory` is a Memory. */
void *memory_resize(void *memory, void *block, size_t old_size, size_t new_size);

/* Sets the limit; one below current use is raised to it. */
void memory_limit(Memory *m, size_t bytes);

#endif
