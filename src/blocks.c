/*
 * blocks.c -- see blocks.h.
 */
#include "blocks.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 64 * 1024 };

/* The address sanitizer sees the end of a block only if malloc made it. It also knows the size of
 * each: a wrong one would put a block into the list of another size. */
#ifdef __SANITIZE_ADDRESS__
static bool is_small(size_t size)
{
    (void)size;
    return false;
}

static void check_size(void *block, size_t size)
{
    assert(malloc_usable_size(block) == size);
}
#else
static bool is_small(size_t size)
{
    return size <= BLOCKS_LARGEST;
}

static void check_size(void *block, size_t size)
{
    (void)block, (void)size;
}
#endif

static void **list_for(Blocks *b, size_t size)
{
    return &b->spare[(size - 1) / BLOCKS_STEP];
}

static bool new_chunk(Blocks *b)
{
    char *chunk = malloc(CHUNK_SIZE);
    if (chunk == NULL)
        return false;
    *(void **)(void *)chunk = b->chunks;
    b->chunks = chunk;
    b->fresh = chunk + BLOCKS_STEP; /* after the link, and as malloc aligns */
    b->end = chunk + CHUNK_SIZE;
    return true;
}

static void *take(Blocks *b, size_t size)
{
    if (!is_small(size))
        return malloc(size);
    void **list = list_for(b, size), *block = *list;
    if (block != NULL) {
        *list = *(void **)block;
        return block;
    }
    size_t whole = (size + BLOCKS_STEP - 1) / BLOCKS_STEP * BLOCKS_STEP;
    if ((size_t)(b->end - b->fresh) < whole && !new_chunk(b))
        return NULL;
    block = b->fresh;
    b->fresh += whole;
    return block;
}

static void give(Blocks *b, void *block, size_t size)
{
    if (block == NULL)
        return;
    if (!is_small(size)) {
        free(block);
        return;
    }
    void **list = list_for(b, size);
    *(void **)block = *list;
    *list = block;
}

void *blocks_resize(Blocks *b, void *block, size_t old_size, size_t new_size)
{
    check_size(block, block != NULL ? old_size : 0);
    if (new_size == 0) {
        give(b, block, old_size);
        return NULL;
    }
    if (block != NULL && !is_small(old_size) && !is_small(new_size))
        return realloc(block, new_size);
    void *other = take(b, new_size);
    if (other != NULL && block != NULL) {
        memcpy(other, block, old_size < new_size ? old_size : new_size);
        give(b, block, old_size);
    }
    return other;
}

void blocks_end(Blocks *b)
{
    for (void *chunk = b->chunks, *next; chunk != NULL; chunk = next) {
        next = *(void **)chunk;
        free(chunk);
    }
    *b = (Blocks){.chunks = NULL};
}
