/*
 * guard.h -- replaces the functions of Lua's library with which a script could crash the process,
 * or act in a replay (api/offline.h).
 */
#ifndef PONDER_GUARD_H
#define PONDER_GUARD_H

#include <lua.h>

/* Call it after luaL_openlibs. */
void guard_library(lua_State *L);

#endif
