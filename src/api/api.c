/* api.c -- boxes and classes; see api.h. */
#include "api/api.h"

/* ---- fields ---- */

static bool has_field(lua_State *L, int arg, const char *name, int type)
{
    int found = lua_getfield(L, arg, name);
    if (found != type && found != LUA_TNIL)
        luaL_error(L, "%s must be a %s (got %s)", name, lua_typename(L, type),
                   luaL_typename(L, -1));
    return found != LUA_TNIL;
}

void api_read_integer(lua_State *L, int arg, const char *name, int64_t min, int64_t max,
                      int64_t *value)
{
    if (has_field(L, arg, name, LUA_TNUMBER)) {
        int64_t given = luaL_checkinteger(L, -1);
        *value = given < min ? min : given > max ? max : given;
    }
    lua_pop(L, 1);
}

void api_read_boolean(lua_State *L, int arg, const char *name, bool *value)
{
    if (has_field(L, arg, name, LUA_TBOOLEAN))
        *value = lua_toboolean(L, -1);
    lua_pop(L, 1);
}

void api_read_string(lua_State *L, int arg, const char *name, const char **value)
{
    size_t size;
    if (!has_field(L, arg, name, LUA_TSTRING))
        return;
    *value = lua_tolstring(L, -1, &size);
    if (strlen(*value) != size)
        luaL_error(L, "%s must not contain a NUL", name);
}

/* ---- boxes ---- */

void *api_new_box(lua_State *L, const char *name, size_t size, void (*close)(void *held))
{
    Box *b = lua_newuserdatauv(L, size, BOX_VALUES);
    memset(b, 0, size);
    b->process = loop_process_id();
    b->close = close;
    luaL_setmetatable(L, name);
    return b;
}

const char *api_box_problem(const Box *b)
{
    if (b->held == NULL || b->closing)
        return "is closed";
    if (b->process != loop_process_id())
        return "belongs to the process that opened it";
    return b->owner != NULL ? api_box_problem(b->owner) : NULL;
}

void *api_check_box(lua_State *L, const char *name, const char *what)
{
    const Box *b = luaL_checkudata(L, 1, name);
    const char *problem = api_box_problem(b);
    if (problem != NULL)
        luaL_error(L, "the %s %s", what, problem);
    return b->held;
}

void *api_empty_box(Box *b)
{
    void *held = b->held;
    b->closing = b->uses > 0;
    if (b->closing)
        return NULL;
    b->held = NULL;
    return b->process == loop_process_id() ? held : NULL;
}

static void close_box(Box *b)
{
    void *held = api_empty_box(b);
    if (held != NULL)
        b->close(held);
}

int api_close(lua_State *L)
{
    close_box(luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(1))));
    return 0;
}

int api_use_box(lua_State *L, int index, lua_CFunction body)
{
    Box *box = lua_touserdata(L, index);
    int n = lua_gettop(L);
    if (box->uses > 0)
        return luaL_error(L, "it is in use by the call that this finalizer interrupts");
    luaL_checkstack(L, n + 1, NULL);
    lua_pushcfunction(L, body);
    for (int i = 1; i <= n; i++)
        lua_pushvalue(L, i);
    for (Box *b = box; b != NULL; b = b->owner)
        b->uses++;
    loop_hold(1);
    int status = lua_pcall(L, n, LUA_MULTRET, 0);
    loop_hold(-1);
    for (Box *b = box; b != NULL; b = b->owner)
        if (--b->uses == 0 && b->closing)
            close_box(b);
    return status == LUA_OK ? lua_gettop(L) - n : lua_error(L);
}

int api_port(lua_State *L)
{
    const LoopPort *port = api_check_box(L, lua_tostring(L, lua_upvalueindex(1)), "source");
    lua_pushinteger(L, port->number);
    return 1;
}

bool api_is_collected(lua_State *L)
{
    lua_Debug frame;
    return lua_getstack(L, 0, &frame) && lua_getinfo(L, "n", &frame) &&
           (strcmp(frame.namewhat, "hook") == 0 ||
            (strcmp(frame.namewhat, "metamethod") == 0 && strcmp(frame.name, "__gc") == 0));
}

/* ---- classes ---- */

void api_new_class(lua_State *L, const char *name, const luaL_Reg *methods)
{
    static const char *const ends[] = {"__gc", "__close"};
    luaL_newmetatable(L, name);
    lua_newtable(L);
    lua_pushstring(L, name);
    luaL_setfuncs(L, methods, 1);
    lua_setfield(L, -2, "__index");
    for (int i = 0; i < 2; i++) {
        lua_pushstring(L, name);
        lua_pushcclosure(L, api_close, 1);
        lua_setfield(L, -2, ends[i]);
    }
    lua_pop(L, 1);
}
