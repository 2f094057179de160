/*
 * l_directory.c -- ponder.core.directory: the files of a directory.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"

#define DIRECTORY "ponder.core.directory"

static int directory_gc(lua_State *L)
{
    DIR **directory = luaL_checkudata(L, 1, DIRECTORY);
    if (*directory)
        closedir(*directory);
    *directory = NULL;
    return 0;
}

static int fail(lua_State *L, const char *path, int error)
{
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, strerror(error));
    lua_pushstring(L, error == ENOENT || error == ENOTDIR ? "NOT_FOUND" : "IO");
    return 3;
}

/* Appends {name=, bytes=, modified_at=} to the list on top, if the entry is a file. */
static lua_Integer add_file(lua_State *L, DIR *directory, const char *name, lua_Integer count)
{
    struct stat about;
    if (fstatat(dirfd(directory), name, &about, 0) != 0 || !S_ISREG(about.st_mode))
        return count;
    lua_createtable(L, 0, 3);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, (lua_Integer)about.st_size);
    lua_setfield(L, -2, "bytes");
    lua_pushnumber(L, (lua_Number)about.st_mtim.tv_sec + (lua_Number)about.st_mtim.tv_nsec / 1e9);
    lua_setfield(L, -2, "modified_at");
    lua_rawseti(L, -2, count + 1);
    return count + 1;
}

/* directory.files(path) -> list of {name, bytes, modified_at}, unordered; or nil, message, code */
static int directory_files(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    DIR **directory = lua_newuserdatauv(L, sizeof *directory, 0);
    *directory = NULL;
    luaL_setmetatable(L, DIRECTORY);
    lua_toclose(L, -1);
    *directory = opendir(path);
    if (!*directory)
        return fail(L, path, errno);
    lua_newtable(L);
    lua_Integer count = 0;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(*directory)))
        count = add_file(L, *directory, entry->d_name, count);
    if (errno != 0)
        return fail(L, path, errno);
    return 1;
}

PONDER_MODULE int luaopen_ponder_core_directory(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_directory(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"__gc", directory_gc}, {"__close", directory_gc}, {NULL, NULL}};
    luaL_newmetatable(L, DIRECTORY);
    luaL_setfuncs(L, methods, 0);
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {{"files", directory_files}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
