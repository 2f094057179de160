/* memory.c -- see memory.h. */
#define _DEFAULT_SOURCE /* madvise */
#include "memory.h"

#include <assert.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHECK_EVERY = 1 << 20, /* bytes: reading resident memory takes some microseconds */
    GIVE_BACK = 128 << 20, /* bytes: free memory below this is kept for reuse */
    GROW_BY = 1 << 20,
    AT_START = 384 << 10, /* bytes that every start takes */
    IN_HEAP = 120 << 10,  /* malloc maps blocks from 128 KiB on */
    PATH_SIZE = 512,
};

/* ---- what the system has ---- */

size_t memory_resident(void)
{
    char text[128];
    unsigned long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*u %lu", &pages) == 1 ? pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

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

/* Has the first pages of the heap mapped by one system call: a fault for each of them would take a
 * twentieth of a start. Kernels before 5.14 refuse. */
static void map_at_start(void)
{
    char *block = malloc(IN_HEAP); /* the heap grows by GROW_BY more */
    if (block == NULL)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    madvise(block + (page - (uintptr_t)block % page), AT_START, MADV_POPULATE_WRITE);
    free(block);
}

Memory memory_new(void)
{
    mallopt(M_TRIM_THRESHOLD, GIVE_BACK); /* page faults would cost as much as the search itself */
    mallopt(M_TOP_PAD, GROW_BY);
    map_at_start();
    long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page_size > 0 ? (size_t)pages * (size_t)page_size : SIZE_MAX;
    return (Memory){.bytes_limit = machine / 4 * 3, .resident_limit = machine / 4 * 3};
}

/* ---- limits ---- */

/* Lowers the limits to those of our control group. Reading them takes a fortieth of a start, so
 * it waits until the process grows, or a limit is set or asked for. */
static void heed_group(Memory *m)
{
    if (m->group_known)
        return;
    size_t limit = memory_group_limit("/proc/self/cgroup", "/sys/fs/cgroup") / 4 * 3;
    m->group_known = true;
    m->bytes_limit = limit < m->bytes_limit ? limit : m->bytes_limit;
    m->resident_limit = limit < m->resident_limit ? limit : m->resident_limit;
}

size_t memory_bytes_limit(Memory *m)
{
    heed_group(m);
    return m->bytes_limit;
}

void memory_limit_bytes(Memory *m, size_t bytes)
{
    heed_group(m);
    m->bytes_limit = bytes > m->bytes ? bytes : m->bytes;
}

void memory_limit_resident(Memory *m, size_t bytes)
{
    size_t now = memory_resident() + CHECK_EVERY;
    heed_group(m);
    m->resident_limit = bytes > now ? bytes : now;
    m->unchecked = CHECK_EVERY;
}

/* AddressSanitizer takes a multiple of what is requested, so resident memory says nothing; but it
 * knows each block's size, which lets us check that callers pass the right one. */
#ifdef __SANITIZE_ADDRESS__
static bool fits(Memory *m, size_t growth)
{
    (void)m, (void)growth;
    return true;
}

static void check_size(void *block, size_t size)
{
    assert(malloc_usable_size(block) == size);
}

static void free_last(void *block)
{
    free(block); /* else it would be a leak */
}
#else
/* Whether the process may grow by that much. Trims free memory before it refuses. */
static bool fits(Memory *m, size_t growth)
{
    m->unchecked += growth;
    if (m->unchecked < CHECK_EVERY)
        return true;
    heed_group(m);
    if (memory_resident() + growth > m->resident_limit) {
        malloc_trim(0);
        if (memory_resident() + growth > m->resident_limit)
            return false; /* `unchecked` stays: the next request is checked again */
    }
    m->unchecked = 0;
    return true;
}

static void check_size(void *block, size_t size)
{
    (void)block, (void)size;
}

static void free_last(void *block)
{
    (void)block;
}
#endif

/* malloc itself returns only free memory above the last block in use. */
static void shrink(Memory *m, size_t bytes)
{
    m->bytes -= bytes;
    if (m->bytes < m->peak / 2 && m->peak - m->bytes >= GIVE_BACK) {
        malloc_trim(0);
        m->peak = m->bytes;
    }
}

static void grow(Memory *m, size_t bytes)
{
    m->bytes += bytes;
    if (m->bytes > m->peak)
        m->peak = m->bytes;
}

void *memory_resize(void *memory, void *block, size_t old_size, size_t new_size)
{
    Memory *m = memory;
    if (block == NULL)
        old_size = 0; /* Lua passes the kind of object here */
    check_size(block, old_size);
    if (new_size == 0) {
        free(block);
        shrink(m, old_size);
        return NULL;
    }
    if (new_size > old_size) {
        size_t growth = new_size - old_size;
        if (growth > m->bytes_limit - m->bytes || !fits(m, growth))
            return NULL;
    }
    void *other = block != NULL ? realloc(block, new_size) : malloc(new_size); /* faster */
    if (other != NULL && new_size >= old_size)
        grow(m, new_size - old_size);
    else if (other != NULL)
        shrink(m, old_size - new_size);
    return other;
}

void *memory_resize_last(void *memory, void *block, size_t old_size, size_t new_size)
{
    Memory *m = memory;
    if (block == NULL || new_size > 0)
        return memory_resize(memory, block, old_size, new_size);
    check_size(block, old_size);
    free_last(block);
    m->bytes -= old_size;
    return NULL;
}
