/*
 * l_json.c -- the Lua module ponder.json (lua/ponder/meta/json.lua describes it).
 *
 * It does not use lua-cjson, which loses 64-bit integers and digits beyond the 14th, has no empty
 * lists, no sorted keys and no positions in its errors, and rejects lone surrogates. json.null is
 * the same value as cjson.null, so both can be used side by side.
 */
#include <string.h>

#include "api/l_json.h"
#include "core/json.h"

/* ---- arguments ---- */

const char *json_text(lua_State *L, const char *where, size_t *length)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        luaL_error(L, "%s: text must be a string (got %s)", where, options_describe(L, 1));
    return lua_tolstring(L, 1, length);
}

/* ---- memory that a userdata owns ---- */

typedef struct Box {
    void *memory;
    size_t size;
} Box;

static const char BOX[] = "ponder.json.box";

void json_box_free(lua_State *L, int slot)
{
    Box *box = lua_touserdata(L, slot);
    Alloc alloc = api_alloc(L);
    if (box != NULL) {
        alloc_free(&alloc, box->memory, box->size);
        *box = (Box){NULL, 0};
    }
}

static int box_gc(lua_State *L)
{
    luaL_checkudata(L, 1, BOX);
    json_box_free(L, 1);
    return 0;
}

static Box *box_new(lua_State *L)
{
    Box *box = lua_newuserdatauv(L, sizeof *box, 0);
    *box = (Box){NULL, 0};
    if (luaL_newmetatable(L, BOX)) {
        lua_pushcfunction(L, box_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return box;
}

void *json_box_resize(lua_State *L, int slot, const void *old, size_t used, size_t size)
{
    Alloc alloc = api_alloc(L);
    Box *box = lua_touserdata(L, slot);
    bool fresh = box == NULL;
    void *memory;
    if (fresh) {
        box = box_new(L);
        lua_replace(L, slot);
    }
    memory = alloc_resize(&alloc, box->memory, box->size, size);
    if (memory == NULL) {
        lua_pushliteral(L, "not enough memory");
        lua_error(L);
    }
    if (fresh)
        memcpy(memory, old, used);
    box->memory = memory;
    box->size = size;
    return memory;
}

/* ---- marks ---- */

/* Marks the table at argument 1, or a new one, with the metatable at `mark`. */
static int mark_table(lua_State *L, const char *where, int mark)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    } else if (!lua_istable(L, 1)) {
        return luaL_error(L, "%s: expected a table (got %s)", where, options_describe(L, 1));
    }
    lua_settop(L, 1);
    if (lua_getmetatable(L, 1)) {
        if (!lua_rawequal(L, -1, JSON_LIST_MARK) && !lua_rawequal(L, -1, JSON_OBJECT_MARK))
            return luaL_error(L, "%s: the table already has a metatable", where);
        lua_pop(L, 1);
    }
    lua_pushvalue(L, mark);
    lua_setmetatable(L, 1);
    return 1;
}

static int json_array(lua_State *L)
{
    return mark_table(L, "json.array", JSON_LIST_MARK);
}

static int json_object(lua_State *L)
{
    return mark_table(L, "json.object", JSON_OBJECT_MARK);
}

static const luaL_Reg FUNCTIONS[] = {{"encode", json_lua_encode}, {"decode", json_lua_decode},
                                     {"get", json_lua_get},       {"array", json_array},
                                     {"object", json_object},     {NULL, NULL}};

PONDER_MODULE(luaopen_ponder_json)
{
    luaL_newlibtable(L, FUNCTIONS);
    /* In the registry, so that marks are the same for every instance of the module. */
    luaL_newmetatable(L, "ponder.json.array");
    luaL_newmetatable(L, "ponder.json.object");
    luaL_setfuncs(L, FUNCTIONS, 2);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}
