/*
 * failing_memory.c -- a Lua module for specs: run Lua code in a state of its own whose memory
 * fails.
 *
 *   attempt(path, cpath, code, nth, lasting) -> outcome, allocations, leaked, descriptors
 *
 * `code` is a chunk that returns a function. The function is called with the memory armed: its
 * allocation number `nth` fails, and if `lasting` all later ones too. (Lua collects garbage and
 * tries again when an allocation fails, so one failure alone is often survived.) Then the state is
 * closed.
 *
 *   outcome      "ok", or the error's message
 *   allocations  how many the function asked for
 *   leaked       bytes that closing the state left behind
 *   descriptors  how many more are open than before
 */
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdlib.h>

int luaopen_failing_memory(lua_State *L);

typedef struct Memory {
    bool armed;
    bool lasting;
    lua_Integer nth;
    lua_Integer allocations;
    lua_Integer bytes;
} Memory;

static void *failing_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    Memory *m = ud;
    if (ptr == NULL)
        osize = 0; /* Lua passes the kind of object here */
    if (nsize > osize && m->armed) {
        m->allocations++;
        if (m->lasting ? m->allocations >= m->nth : m->allocations == m->nth)
            return NULL;
    }
    m->bytes += (lua_Integer)nsize - (lua_Integer)osize;
    if (nsize > 0)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

/* Runs the chunk and leaves the function it returns on the stack; false leaves a message. */
static bool prepare(lua_State *L, const char *path, const char *cpath, const char *code)
{
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, cpath);
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
    return luaL_loadstring(L, code) == LUA_OK && lua_pcall(L, 0, 1, 0) == LUA_OK;
}

static lua_Integer count_descriptors(void)
{
    lua_Integer open = 0;
    for (int fd = 0; fd < 1024; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

static int attempt(lua_State *L)
{
    lua_Integer descriptors = count_descriptors();
    const char *path = luaL_checkstring(L, 1), *cpath = luaL_checkstring(L, 2);
    const char *code = luaL_checkstring(L, 3);
    Memory m = {.nth = luaL_checkinteger(L, 4), .lasting = lua_toboolean(L, 5)};
    lua_State *inner = lua_newstate(failing_alloc, &m);
    if (inner == NULL)
        return luaL_error(L, "failing_memory: no new state");
    bool ok = prepare(inner, path, cpath, code);
    if (ok) {
        lua_gc(inner, LUA_GCSTOP); /* a finalizer that Lua has no memory to call is lost */
        m.armed = true;
        ok = lua_pcall(inner, 0, 0, 0) == LUA_OK;
        m.armed = false;
    }
    lua_pushstring(L, ok ? "ok" : luaL_tolstring(inner, -1, NULL));
    lua_close(inner);
    lua_pushinteger(L, m.allocations);
    lua_pushinteger(L, m.bytes);
    lua_pushinteger(L, count_descriptors() - descriptors);
    return 4;
}

int luaopen_failing_memory(lua_State *L)
{
    static const luaL_Reg FUNCTIONS[] = {{"attempt", attempt}, {NULL, NULL}};
    luaL_newlib(L, FUNCTIONS);
    return 1;
}
