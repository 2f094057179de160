/*
 * net_batch.h -- events and results of a pump or a stream reader, as a list for Lua.
 *
 * Each function takes the number of filled slots of the list and returns the new number.
 */
#ifndef PONDER_API_NET_BATCH_H
#define PONDER_API_NET_BATCH_H

#include <lua.h>

#include "net/pump.h"

/* Appends events, each as [source,] name, data. */
lua_Integer net_put_events(lua_State *L, int batch, lua_Integer n, const EventList *events,
                           bool with_source);

/* Appends the results of ended calls, each as id, false, result, and drops them. */
lua_Integer net_put_results(lua_State *L, int batch, lua_Integer n, Pump *pump);

/* Clears the slots after the first `n`, which an earlier batch may have filled. */
void net_clear_rest(lua_State *L, int batch, lua_Integer n);

#endif
