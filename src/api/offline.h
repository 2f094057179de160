/*
 * offline.h -- what a replay refuses: starting programs, writing files and opening sockets, for
 * which its log has no results. A process that replays does nothing else, so this is for good.
 */
#ifndef PONDER_API_OFFLINE_H
#define PONDER_API_OFFLINE_H

#include <lua.h>

/* Refuses such things from now on; guard.c has those of Lua's library. */
void offline_begin(void);

/* Raises NOT_IN_REPLAY in a replay; `call` is the function's name in Lua. */
void offline_refuse(lua_State *L, const char *call);

#endif
