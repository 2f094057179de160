/*
 * guard.h -- what scripts may not do with Lua's own library, so that none can crash the process.
 */
#ifndef PONDER_GUARD_H
#define PONDER_GUARD_H

#include <lua.h>

/* Replaces those functions of Lua's library that could; the library must be open. */
void guard_library(lua_State *L);

#endif
