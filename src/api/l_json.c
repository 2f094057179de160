/*
 * l_json.c -- the Lua module ponder.json (lua/ponder/meta/json.lua describes it).
 *
 * It is not built on lua-cjson: that keeps no 64-bit integer and no more than 14 digits, has no
 * empty list, no order of keys and no place in its errors, and fails a text for one lone surrogate.
 * json.null is the same value as cjson.null, so that the two can be used side by side.
 */
#include <string.h>

#include "api/l_json.h"
#include "core/json.h"

/* ---- arguments ---- */

static const char *describe_string(lua_State *L, int index)
{
    char shown[48];
    size_t length;
    const char *text = lua_tolstring(L, index, &length), *end = text + length;
    size_t n = json_escape(shown, sizeof shown - 1, &text, end);
    shown[n] = '\0';
    return lua_pushfstring(L, text < end ? "\"%s...\"" : "\"%s\"", shown);
}

const char *json_describe(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TNONE: return lua_pushliteral(L, "nothing");
    case LUA_TNUMBER:
    case LUA_TNIL:
    case LUA_TBOOLEAN: return luaL_tolstring(L, index, NULL);
    case LUA_TSTRING: return describe_string(L, index);
    case LUA_TLIGHTUSERDATA: return lua_pushliteral(L, "a light userdata");
    default: return lua_pushfstring(L, "a %s", luaL_typename(L, index));
    }
}

const char *json_text(lua_State *L, const char *where, size_t *length)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        luaL_error(L, "%s: text must be a string (got %s)", where, json_describe(L, 1));
    return lua_tolstring(L, 1, length);
}

/* The option named by the string at `index`, or NULL. */
static JsonOption *find_option(lua_State *L, int index, JsonOption *options, int count)
{
    if (lua_type(L, index) == LUA_TSTRING)
        for (int i = 0; i < count; i++)
            if (strcmp(lua_tostring(L, index), options[i].name) == 0)
                return &options[i];
    return NULL;
}

static int unknown_option(lua_State *L, int key, const char *where, const JsonOption *options,
                          int count)
{
    const char *shown = json_describe(L, key);
    luaL_Buffer names;
    luaL_buffinit(L, &names);
    for (int i = 0; i < count; i++) {
        lua_pushfstring(L, "%s\"%s\"", i > 0 ? " or " : "", options[i].name);
        luaL_addvalue(&names);
    }
    luaL_pushresult(&names);
    return luaL_error(L, "%s: unknown option %s (did you mean %s?)", where, shown,
                      lua_tostring(L, -1));
}

/* Takes the value at `index` for the option. */
static void set_option(lua_State *L, int index, const char *where, JsonOption *option)
{
    int is_integer = lua_type(L, index) == LUA_TNUMBER;
    lua_Integer value = is_integer ? lua_tointegerx(L, index, &is_integer) : 0;
    if (is_integer && value >= option->min && value <= option->max) {
        option->value = value;
        return;
    }
    const char *range = option->max == LUA_MAXINTEGER
                            ? lua_pushfstring(L, ">= %I", (LUAI_UACINT)option->min)
                            : lua_pushfstring(L, "from %I to %I", (LUAI_UACINT)option->min,
                                              (LUAI_UACINT)option->max);
    luaL_error(L, "%s: opts.%s must be an integer %s (got %s)", where, option->name, range,
               json_describe(L, index));
}

void json_options(lua_State *L, int arg, const char *where, JsonOption *options, int count)
{
    int top = lua_gettop(L);
    if (lua_isnoneornil(L, arg))
        return;
    if (!lua_istable(L, arg))
        luaL_error(L, "%s: opts must be a table (got %s)", where, json_describe(L, arg));
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        JsonOption *option = find_option(L, -2, options, count);
        if (option == NULL)
            unknown_option(L, lua_gettop(L) - 1, where, options, count);
        else
            set_option(L, lua_gettop(L), where, option);
        lua_settop(L, top + 1);
    }
}

/* ---- memory that a userdata owns ---- */

typedef struct Box {
    void *memory;
    size_t size;
} Box;

static const char BOX[] = "ponder.json.box";

static int box_gc(lua_State *L)
{
    Box *box = luaL_checkudata(L, 1, BOX);
    Alloc alloc = api_alloc(L);
    alloc_free(&alloc, box->memory, box->size);
    box->memory = NULL;
    box->size = 0;
    return 0;
}

static Box *box_new(lua_State *L)
{
    Box *box = lua_newuserdatauv(L, sizeof *box, 0);
    box->memory = NULL;
    box->size = 0;
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

void json_box_free(lua_State *L, int slot)
{
    Box *box = lua_touserdata(L, slot);
    Alloc alloc = api_alloc(L);
    if (box != NULL) {
        alloc_free(&alloc, box->memory, box->size);
        box->memory = NULL;
        box->size = 0;
    }
}

/* ---- marks ---- */

/* Marks the table at argument 1, or a new one, with the metatable at `mark`. */
static int mark_table(lua_State *L, const char *where, int mark)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    } else if (!lua_istable(L, 1)) {
        return luaL_error(L, "%s: expected a table (got %s)", where, json_describe(L, 1));
    }
    lua_settop(L, 1);
    if (lua_getmetatable(L, 1)) {
        if (!lua_rawequal(L, -1, JSON_LIST_MARK) && !lua_rawequal(L, -1, JSON_OBJECT_MARK))
            return luaL_error(L, "%s: the table has a metatable of its own", where);
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

PONDER_MODULE int luaopen_ponder_json(lua_State *L);
PONDER_MODULE int luaopen_ponder_json(lua_State *L)
{
    luaL_newlibtable(L, FUNCTIONS);
    /* In the registry, so that a table keeps its mark wherever it was made. */
    luaL_newmetatable(L, "ponder.json.array");
    luaL_newmetatable(L, "ponder.json.object");
    luaL_setfuncs(L, FUNCTIONS, 2);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}
