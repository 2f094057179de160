/*
 * guard.h -- replaces functions of Lua's library that would run binary code, or act in a replay
 * (api/api.h).
 */
#ifndef PONDER_GUARD_H
#define PONDER_GUARD_H

#include <lua.h>

/* Call it after luaL_openlibs. */
void guard_library(lua_State *L);

#endif
