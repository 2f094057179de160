/* options.c -- see options.h. */
#include "api/options.h"

#include <lauxlib.h>
#include <string.h>

#include "core/json.h"

/* ---- errors ---- */

static const char *describe_string(lua_State *L, int index)
{
    char shown[48];
    size_t length;
    const char *text = lua_tolstring(L, index, &length), *end = text + length;
    size_t n = json_escape(shown, sizeof shown - 1, &text, end);
    shown[n] = '\0';
    return lua_pushfstring(L, text < end ? "\"%s...\"" : "\"%s\"", shown);
}

const char *options_describe(lua_State *L, int index)
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

/* Adds the hint of ponder.options, if that can be loaded. */
static void raise_unknown(lua_State *L, int key, const char *where, const Option *options)
{
    const char *hint = "", *shown = options_describe(L, key);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ponder.options");
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
        lua_getfield(L, -1, "hint");
        lua_pushvalue(L, key);
        lua_newtable(L); /* hint, name, names */
        for (int i = 0; options[i].name != NULL; i++) {
            lua_pushstring(L, options[i].name);
            lua_rawseti(L, -2, i + 1);
        }
        if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_isstring(L, -1))
            hint = lua_tostring(L, -1);
    }
    luaL_error(L, "%s: unknown option %s%s", where, shown, hint);
}

static void raise_value(lua_State *L, int index, const char *where, const Option *o,
                        const char *wanted)
{
    luaL_error(L, "%s: opts.%s must be %s (got %s)", where, o->name, wanted,
               options_describe(L, index));
}

/* ---- values ---- */

static int64_t read_integer(lua_State *L, int index, const char *where, const Option *o)
{
    int ok = 0;
    lua_Integer value = lua_type(L, index) == LUA_TNUMBER ? lua_tointegerx(L, index, &ok) : 0;
    if (!ok || value < o->min || value > o->max)
        raise_value(L, index, where, o,
                    lua_pushfstring(L,
                                    o->max == LUA_MAXINTEGER ? "an integer >= %I"
                                                             : "an integer from %I to %I",
                                    (LUAI_UACINT)o->min, (LUAI_UACINT)o->max));
    return value;
}

static const char *read_text(lua_State *L, int index, const char *where, const Option *o)
{
    size_t size = 0;
    const char *s = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &size) : NULL;
    if (s == NULL)
        raise_value(L, index, where, o, "a string");
    if (strlen(s) != size)
        luaL_error(L, "%s: opts.%s must not contain a NUL", where, o->name);
    if (o->kind == OPTION_LINE && strpbrk(s, "\r\n") != NULL)
        luaL_error(L, "%s: opts.%s must not contain a line break", where, o->name);
    return s;
}

static int read_choice(lua_State *L, int index, const char *where, const Option *o)
{
    const char *s = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    for (int i = 0; o->choices[i] != NULL; i++)
        if (strcmp(o->choices[i], s) == 0)
            return i;
    return luaL_error(L, "%s: opts.%s has no value %s", where, o->name, options_describe(L, index));
}

static void read_value(lua_State *L, int index, const char *where, const Option *o, void *field)
{
    switch (o->kind) {
    case OPTION_INTEGER: *(int64_t *)field = read_integer(L, index, where, o); break;
    case OPTION_BOOLEAN:
        if (lua_type(L, index) != LUA_TBOOLEAN)
            raise_value(L, index, where, o, "a boolean");
        *(bool *)field = lua_toboolean(L, index);
        break;
    case OPTION_TEXT:
    case OPTION_LINE: *(const char **)field = read_text(L, index, where, o); break;
    case OPTION_CHOICE: *(int *)field = read_choice(L, index, where, o); break;
    case OPTION_OTHER: break;
    }
}

void options_read(lua_State *L, int arg, const char *where, const Option *options, void *out)
{
    if (lua_isnoneornil(L, arg))
        return;
    if (!lua_istable(L, arg))
        luaL_error(L, "%s: opts must be a table (got %s)", where, options_describe(L, arg));
    for (lua_pushnil(L); lua_next(L, arg) != 0; lua_pop(L, 1)) {
        int value = lua_gettop(L);
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        const Option *o = options;
        while (o->name != NULL && strcmp(o->name, name) != 0)
            o++;
        if (o->name == NULL)
            raise_unknown(L, value - 1, where, options);
        read_value(L, value, where, o, (char *)out + o->offset);
    }
}

/* ---- fields of a checked table ---- */

uint64_t options_integer(lua_State *L, int arg, const char *name, uint64_t max)
{
    lua_getfield(L, arg, name);
    lua_Integer value = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, value >= 0, arg, name);
    lua_pop(L, 1);
    return (uint64_t)value < max ? (uint64_t)value : max;
}

bool options_flag(lua_State *L, int arg, const char *name)
{
    lua_getfield(L, arg, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

int options_name(lua_State *L, int arg, const char *name, const char *const *names)
{
    lua_getfield(L, arg, name);
    int i = luaL_checkoption(L, -1, names[0], names);
    lua_pop(L, 1);
    return i;
}
