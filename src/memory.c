/* memory.c -- see memory.h. */
#include "memory.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_SIZE = 512,
    GIVE_BACK = 128 << 20, /* bytes: less free memory is kept for reuse */
};

/* ---- what the system has ---- */

/* The number in a file; SIZE_MAX if there is none ("max", or no such file). */
static size_t read_limit(const char *path)
{
    unsigned long long limit;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return SIZE_MAX;
    bool found = fscanf(file, "%llu", &limit) == 1;
    fclose(file);
    return found && limit < SIZE_MAX ? (size_t)limit : SIZE_MAX;
}

/* The lowest limit of a group and its ancestors. In a container the path may be the one outside,
 * while only our own group is mounted: then its file is at the root. */
static size_t least_limit(const char *mounted, const char *group, const char *file)
{
    char path[PATH_SIZE];
    size_t least = SIZE_MAX;
    int length = (int)strlen(group);
    for (;;) {
        snprintf(path, sizeof path, "%s%.*s/%s", mounted, length, group, file);
        size_t limit = read_limit(path);
        least = limit < least ? limit : least;
        if (length <= 0)
            return least;
        do
            length--;
        while (length > 0 && group[length] != '/');
    }
}

size_t memory_group_limit(const char *groups, const char *mounted)
{
    char line[PATH_SIZE], inside[PATH_SIZE];
    size_t least = SIZE_MAX;
    FILE *file = fopen(groups, "re");
    if (file == NULL)
        return SIZE_MAX;
    snprintf(inside, sizeof inside, "%s/memory", mounted);
    while (fgets(line, sizeof line, file) != NULL) { /* NUMBER:CONTROLLERS:GROUP */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        size_t limit = SIZE_MAX;
        if (controllers[1] == '\0')
            limit = least_limit(mounted, group, "memory.max");
        else if (strcmp(controllers + 1, "memory") == 0)
            limit = least_limit(inside, group, "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    fclose(file);
    return least;
}

Memory memory_new(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page_size > 0 ? (size_t)pages * (size_t)page_size : SIZE_MAX;
    size_t group = memory_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    return (Memory){.limit = (group < machine ? group : machine) / 4 * 3};
}

void memory_limit(Memory *m, size_t bytes)
{
    m->limit = bytes > m->bytes ? bytes : m->bytes;
}

/* ---- the allocator ---- */

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
        malloc_trim(0); /* by itself malloc returns only what is free above the last block in use */
        m->peak = m->bytes;
    }
    return other;
}
