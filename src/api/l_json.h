/*
 * l_json.h -- what the files of the Lua module ponder.json share.
 *
 *   l_json.c       the module: json.array, json.object, json.null, arguments and options
 *   json_decode.c  JSON text to Lua values: json.decode, json.get
 *   json_encode.c  Lua values to JSON text: json.encode
 *
 * Every function of the module is a closure with two upvalues, the metatables that mark a table as
 * a list or as an object.
 */
#ifndef PONDER_API_L_JSON_H
#define PONDER_API_L_JSON_H

#include <stdbool.h>

#include "api/api.h"

#define JSON_LIST_MARK   lua_upvalueindex(1)
#define JSON_OBJECT_MARK lua_upvalueindex(2)

enum { JSON_DEFAULT_DEPTH = 1000, JSON_DEFAULT_BYTES = 64 * 1024 * 1024 };

/* An option that is an integer; `value` holds the default and receives what was given. */
typedef struct JsonOption {
    const char *name;
    lua_Integer min;
    lua_Integer max;
    lua_Integer value;
} JsonOption;

/* Reads the options at `arg` (nil for none); raises for a bad value or an unknown name. */
void json_options(lua_State *L, int arg, const char *where, JsonOption *options, int count);

/* The text at argument 1; a number is not a string. */
const char *json_text(lua_State *L, const char *where, size_t *length);

/* What an error calls the value at `index`: nil, 0, "text", a table; pushes it. */
const char *json_describe(lua_State *L, int index);

/*
 * Memory that grows, owned by a userdata in the stack slot `slot` (nil until the first call), so
 * that it is freed whatever is raised. The first `used` bytes of `old` are kept.
 */
void *json_box_resize(lua_State *L, int slot, const void *old, size_t used, size_t size);
void json_box_free(lua_State *L, int slot);

int json_lua_encode(lua_State *L);
int json_lua_decode(lua_State *L);
int json_lua_get(lua_State *L);

#endif
