/*
 * net_options.h -- the option tables of ponder.core.net. Mistakes raise; strings belong to the
 * tables.
 */
#ifndef PONDER_API_NET_OPTIONS_H
#define PONDER_API_NET_OPTIONS_H

#include <lua.h>

#include "net/pump.h"

typedef struct NetOptions {
    PumpOptions pump;
    Request request;
} NetOptions;

/* Defaults, and the options of net.open in the table at `arg` (or nil). */
void net_open_options(lua_State *L, int arg, NetOptions *o);

/* The same of net.reader: only limits. */
void net_reader_options(lua_State *L, int arg, NetOptions *o);

/* Options of a call, over the defaults in `o`. Header lines go to the caller's `headers`. False:
 * out of memory. */
bool net_submit_options(lua_State *L, int arg, NetOptions *o, Buffer *headers, const Alloc *a);

/* "sse" or "ndjson" */
StreamKind net_stream_kind(lua_State *L, int index, const char *where, const char *name);

#endif
