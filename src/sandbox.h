/*
 * sandbox.h -- what scripts may not do with Lua's own library, so that none can crash the process.
 */
#ifndef PONDER_SANDBOX_H
#define PONDER_SANDBOX_H

#include <lua.h>

/* Replaces those functions of Lua's library that could; the library must be open. */
void sandbox_apply(lua_State *L);

#endif
