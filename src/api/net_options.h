/*
 * net_options.h -- the option tables of ponder.core.net, from Lua to C.
 *
 * All functions raise on an unknown name, a wrong type and a value out of range. The strings they
 * give out belong to the Lua values on the stack.
 */
#ifndef PONDER_API_NET_OPTIONS_H
#define PONDER_API_NET_OPTIONS_H

#include <lua.h>

#include "net/pump.h"

typedef struct NetOptions {
    PumpOptions pump;
    Request request;
} NetOptions;

/* Options of net.open: fills `o` with defaults and what the table at `arg` (or nil) says. */
void net_open_options(lua_State *L, int arg, NetOptions *o);

/* Options of net.reader: only limits. */
void net_reader_options(lua_State *L, int arg, NetOptions *o);

/* Options of a call: changes what `o` holds. Header lines go to `headers`, whose memory somebody
 * else owns. False when memory is short. */
bool net_submit_options(lua_State *L, int arg, NetOptions *o, Buffer *headers, const Alloc *a);

/* "sse" or "ndjson" */
StreamKind net_stream_kind(lua_State *L, int index, const char *where, const char *name);

#endif
