/*
 * fork.c -- a Lua module for specs: fork(f) calls f in a forked child, which then ends without
 * closing its Lua state, and returns f's error, or nil.
 */
#include <lauxlib.h>
#include <lua.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int luaopen_fork(lua_State *L);

static int fork_call(lua_State *L)
{
    char message[1024] = "";
    int ends[2];
    luaL_checktype(L, 1, LUA_TFUNCTION);
    pid_t pid = pipe(ends) == 0 ? fork() : -1;
    if (pid < 0)
        return luaL_error(L, "cannot fork");
    if (pid == 0) {
        if (lua_pcall(L, 0, 0, 0) != LUA_OK)
            strncpy(message, luaL_tolstring(L, -1, NULL), sizeof message - 1);
        (void)!write(ends[1], message, strlen(message));
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], message, sizeof message);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (n <= 0)
        return 0;
    lua_pushlstring(L, message, (size_t)n);
    return 1;
}

int luaopen_fork(lua_State *L)
{
    lua_pushcfunction(L, fork_call);
    return 1;
}
