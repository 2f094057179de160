/*
 * parts.h -- what the files of src/loop share.
 */
#ifndef PONDER_LOOP_PARTS_H
#define PONDER_LOOP_PARTS_H

#include <uv.h>

#include "loop/loop.h"

/* The loop, opened if it is not open; NULL: errno says why. */
uv_loop_t *loop_get(void);

/* Each callback of a handle says so first. */
void loop_count_callback(void);

/* How many handles there are: +1, -1. */
void loop_count_handle(int change);

/* Closes a handle of libuv that is the first member of a block from malloc, and frees that. */
void loop_close_handle(uv_handle_t *h);

/* NULL, after noting why: for functions that give a handle. */
void *loop_refuse(int uv_error);

#endif
