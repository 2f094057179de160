/*
 * l_json.h -- what the files of ponder.core.json share.
 *
 *   l_json.c       the module, and JSON text to Lua values: json.decode, json.get
 *   json_encode.c  Lua values to JSON text: json.encode
 *
 * Every function of the module has three upvalues: the metatables that mark lists and objects, and
 * the module, to which lua/ponder/json.lua adds `refuse`.
 */
#ifndef PONDER_API_L_JSON_H
#define PONDER_API_L_JSON_H

#include <stdbool.h>

#include "api/api.h"

#define JSON_LIST_MARK   lua_upvalueindex(1)
#define JSON_OBJECT_MARK lua_upvalueindex(2)
#define JSON_MODULE      lua_upvalueindex(3)

enum { JSON_DEFAULT_DEPTH = 1000, JSON_DEFAULT_BYTES = 64 * 1024 * 1024 };

int json_lua_encode(lua_State *L);

#endif
