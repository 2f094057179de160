/*
 * memory.h -- memory for the Lua state and the core, from malloc, within limits.
 */
#ifndef PONDER_MEMORY_H
#define PONDER_MEMORY_H

#include <stddef.h>

typedef struct Memory {
    size_t bytes;          /* that were asked for and are in use */
    size_t bytes_limit;    /* allocations beyond it fail */
    size_t resident_limit; /* so do those beyond what the process may take from the system */
    size_t unchecked;      /* bytes that were asked for since that was looked at */
    size_t peak;           /* most bytes since what is free was given back */
} Memory;

/* Limits are three quarters of what the machine has, or the group of processes that we are in may
 * have: a runaway script fails before the machine swaps or the kernel kills. */
Memory memory_new(void);

/* A lua_Alloc; `memory` is a Memory. */
void *memory_resize(void *memory, void *block, size_t old_size, size_t new_size);

/* No limit is less than what is in use, and a little. */
void memory_limit_bytes(Memory *m, size_t bytes);
void memory_limit_resident(Memory *m, size_t bytes);

/* What the process has of the system's memory now; 0 where that cannot be read. */
size_t memory_resident(void);

/* The least limit that control groups set, of version 1 or 2, by /proc/self/cgroup and what is
 * mounted at /sys/fs/cgroup (specs name others); SIZE_MAX: none. */
size_t memory_group_limit(const char *groups, const char *mounted);

#endif
