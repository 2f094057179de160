/*
 * api.h -- what the Lua modules of src/api share.
 */
#ifndef PONDER_API_API_H
#define PONDER_API_API_H

#include <lauxlib.h>
#include <lua.h>

#include "core/alloc.h"

/* Marks a luaopen_ function: the shared object exports these and nothing else. */
#define PONDER_MODULE __attribute__((visibility("default")))

/* The state's own allocator, for the core: one memory limit covers C and Lua. */
static inline Alloc api_alloc(lua_State *L)
{
    Alloc a;
    a.fn = lua_getallocf(L, &a.ud);
    return a;
}

#endif
