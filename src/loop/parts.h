/* parts.h -- what the files of src/loop share. */
#ifndef PONDER_LOOP_PARTS_H
#define PONDER_LOOP_PARTS_H

#include <uv.h>

#include "loop/loop.h"

/* The loop, which it opens if necessary; NULL: see errno. */
uv_loop_t *loop_get(void);

/* Every callback of a handle calls this first. */
void loop_count_callback(void);

/* Adds to the number of handles: +1, -1. */
void loop_count_handle(int change);

/* Closes a libuv handle, then frees the block that it is part of. */
void loop_close_handle(uv_handle_t *h, void *block);

/* Sets errno and returns NULL. */
void *loop_refuse(int uv_error);

#endif
