/*
 * net_tables.h -- the tables of ponder.core.net: options of calls; events and results as a list.
 */
#ifndef PONDER_API_NET_TABLES_H
#define PONDER_API_NET_TABLES_H

#include <lua.h>

#include "net/pump.h"

/* ---- options: mistakes raise; strings stay on the stack ---- */

typedef struct NetOptions {
    PumpOptions pump;
    Request request;
} NetOptions;

/* Defaults, and the options of net.open in the table at `arg` (or nil). */
void net_open_options(lua_State *L, int arg, NetOptions *o);

/* Options of a call, over the defaults in `o`. */
void net_submit_options(lua_State *L, int arg, NetOptions *o);

/* ---- batches: each function takes the number of filled slots and returns the new one ---- */

/* Appends events, each as source, name, data. */
lua_Integer net_put_events(lua_State *L, int batch, lua_Integer n, const EventList *events);

/* Appends the results of ended calls, each as id, false, result, and drops them. */
lua_Integer net_put_results(lua_State *L, int batch, lua_Integer n, Pump *pump);

/* Clears the slots after the first `n`, which an earlier batch may have filled. */
void net_clear_rest(lua_State *L, int batch, lua_Integer n);

#endif
