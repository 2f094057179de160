/*
 * net_batch.h -- what a pump or a stream reader brought, as lists for Lua.
 *
 * A list is filled from its first slot on: each function takes how many slots are full and returns
 * how many are then.
 */
#ifndef PONDER_API_NET_BATCH_H
#define PONDER_API_NET_BATCH_H

#include <lua.h>

#include "net/pump.h"

/* Puts the events into the list at `batch`, after `n` slots; with their sources if asked to. */
lua_Integer net_put_events(lua_State *L, int batch, lua_Integer n, const EventList *events,
                           bool with_source);

/* Puts the results of ended calls there, and drops them. */
lua_Integer net_put_results(lua_State *L, int batch, lua_Integer n, Pump *pump);

/* Clears slots that an earlier, longer batch left behind. */
void net_clear_rest(lua_State *L, int batch, lua_Integer n);

/* Sets a field of the table on the top of the stack. */
void net_set_integer(lua_State *L, const char *name, lua_Integer value);

#endif
