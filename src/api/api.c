/* api.c -- see api.h. */
#include "api/api.h"

Alloc api_alloc(lua_State *L)
{
    Alloc a;
    a.fn = lua_getallocf(L, &a.ud);
    return a;
}

/* ---- fields ---- */

void api_set_integer(lua_State *L, const char *name, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

void api_set_number(lua_State *L, const char *name, lua_Number value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

void api_set_boolean(lua_State *L, const char *name, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

void api_set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

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

void api_push_pairs(lua_State *L, const Buffer *pairs, int count, bool joins)
{
    const char *value, *end = pairs->data + pairs->size;
    lua_createtable(L, 0, count);
    for (const char *at = pairs->data; at < end; at = value + strlen(value) + 1) {
        value = at + strlen(at) + 1;
        lua_pushstring(L, at);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) == LUA_TNIL) /* [table, name, value so far] */
            lua_pushstring(L, value);
        else if (joins)
            lua_pushfstring(L, "%s, %s", lua_tostring(L, -1), value);
        else
            lua_pushvalue(L, -1);
        lua_remove(L, -2);
        lua_rawset(L, -3);
    }
}

/* ---- failures ---- */

int api_fail(lua_State *L, const char *message, const char *code)
{
    luaL_pushfail(L);
    lua_pushstring(L, message);
    if (code == NULL)
        return 2;
    lua_pushstring(L, code);
    return 3;
}

int api_fail_file(lua_State *L, const char *path, const char *why, const char *code)
{
    return api_fail(L, lua_pushfstring(L, "%s: %s", path, why), code);
}

const char *api_errno_code(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EISDIR ? "NOT_FOUND"
           : error == EEXIST                                      ? "EXISTS"
                                                                  : "IO";
}

int api_fail_errno(lua_State *L, const char *path, int error)
{
    return api_fail_file(L, path, strerror(error), api_errno_code(error));
}

/* ---- replays ---- */

static bool is_offline;

void offline_begin(void)
{
    is_offline = true;
}

void offline_refuse(lua_State *L, const char *call)
{
    if (!is_offline)
        return;
    luaL_error(L,
               "NOT_IN_REPLAY: %s: a replay runs no program, writes no file and opens no socket; "
               "wrap what the log is to keep in log.record",
               call);
}

/* ---- files ---- */

static int close_file(lua_State *L)
{
    luaL_Stream *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    return luaL_fileresult(L, fclose(file->f) == 0, NULL);
}

luaL_Stream *api_new_file(lua_State *L)
{
    luaL_Stream *file = lua_newuserdatauv(L, sizeof *file, 0);
    *file = (luaL_Stream){NULL, NULL};
    luaL_setmetatable(L, LUA_FILEHANDLE);
    return file;
}

bool api_open_file(luaL_Stream *file, int fd, const char *mode)
{
    file->f = fdopen(fd, mode);
    if (file->f == NULL) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    file->closef = close_file;
    return true;
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

void *api_held(lua_State *L)
{
    return ((const Box *)lua_touserdata(L, 1))->held;
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

const luaL_Reg no_methods[] = {{NULL, NULL}};

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
