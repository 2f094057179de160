/*
 * blocks.h -- memory for the Lua state: small blocks from lists by size, large ones from malloc.
 *
 * Lua makes and drops many small objects and always says how large one is, so a block needs no
 * header and no search. Memory that small blocks have had serves small blocks until the end.
 */
#ifndef PONDER_BLOCKS_H
#define PONDER_BLOCKS_H

#include <stddef.h>

enum { BLOCKS_STEP = 16, BLOCKS_LARGEST = 512 };

typedef struct Blocks {
    void *spare[BLOCKS_LARGEST / BLOCKS_STEP]; /* lists: the first word of a block is the next */
    char *fresh, *end;                         /* what is left of the newest chunk */
    void *chunks;                              /* a list too */
} Blocks;                                      /* all zeros: none yet */

/* As realloc and free, with the size that the block has now (0 with NULL). NULL when memory is
 * short: then the old block stays as it was. */
void *blocks_resize(Blocks *b, void *block, size_t old_size, size_t new_size);

/* Gives all small blocks back at once. */
void blocks_end(Blocks *b);

#endif
