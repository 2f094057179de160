/*
 * offline.h -- what a replay refuses: programs, file writes and sockets, of which its log has no
 * results. Once a process replays it does nothing else, so this holds until it ends.
 */
#ifndef PONDER_API_OFFLINE_H
#define PONDER_API_OFFLINE_H

#include <lua.h>

/* Puts guards in the place of the functions of Lua's library that do such things. */
void offline_guard(lua_State *L);

/* From here on they are refused. */
void offline_begin(void);

/* Raises NOT_IN_REPLAY in a replay; `call` names the function, as a script does. */
void offline_refuse(lua_State *L, const char *call);

#endif
