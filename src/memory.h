/* memory.h -- the allocator of the Lua state and of all C code that uses it: malloc with limits. */
#ifndef PONDER_MEMORY_H
#define PONDER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Memory {
    size_t bytes;          /* in use, as requested */
    size_t bytes_limit;    /* of `bytes`: allocations beyond it fail */
    size_t resident_limit; /* of the process's resident memory: allocations beyond it fail */
    size_t unchecked;      /* bytes requested since resident memory was last read */
    size_t peak;           /* of `bytes`, since free memory was last returned to the system */
    bool group_known;      /* the limits heed our control group */
} Memory;

/* Limits default to three quarters of the machine's memory, or of our control group's: a runaway
 * script fails before the machine swaps or the kernel kills. */
Memory memory_new(void);

/* A lua_Alloc; `memory` is a Memory. */
void *memory_resize(void *memory, void *block, size_t old_size, size_t new_size);

/* The same for a process that ends after lua_close: frees nothing, since the system is faster. */
void *memory_resize_last(void *memory, void *block, size_t old_size, size_t new_size);

/* The limit of `bytes`. */
size_t memory_bytes_limit(Memory *m);

/* A limit below current use is raised to it. */
void memory_limit_bytes(Memory *m, size_t bytes);
void memory_limit_resident(Memory *m, size_t bytes);

/* The process's resident memory in bytes; 0 if it cannot be read. */
size_t memory_resident(void);

/* The lowest memory limit of our control groups (version 1 or 2), or SIZE_MAX. `groups` is
 * /proc/self/cgroup and `mounted` /sys/fs/cgroup, except in specs. */
size_t memory_group_limit(const char *groups, const char *mounted);

#endif
