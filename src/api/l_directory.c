/*
 * l_directory.c -- ponder.core.directory: the files of a directory. Described in
 * lua/ponder/meta/directory.lua.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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

static int fail_with(lua_State *L, const char *path, const char *problem, const char *code)
{
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, problem);
    lua_pushstring(L, code);
    return 3;
}

static int fail(lua_State *L, const char *path, int error)
{
    return fail_with(L, path, strerror(error),
                     error == ENOENT || error == ENOTDIR ? "NOT_FOUND" : "IO");
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

/* ---- one file ---- */

static int close_file(lua_State *L)
{
    luaL_Stream *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    return luaL_fileresult(L, fclose(file->f) == 0, NULL);
}

/* What a process may learn of itself and others is not a file of anybody's. */
static bool is_file(int fd)
{
    struct stat about;
    struct statfs system;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && fstatfs(fd, &system) == 0 &&
           system.f_type != PROC_SUPER_MAGIC;
}

/* Pushes where an open file lies. */
static bool push_place(lua_State *L, int fd)
{
    char link[64], place[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, place, sizeof place);
    if (n < 0 || n == sizeof place)
        return false;
    lua_pushlstring(L, place, (size_t)n);
    return true;
}

/* A pipe does not make it wait, nor a terminal become that of this process. */
static int directory_open(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    luaL_Stream *file = lua_newuserdatauv(L, sizeof *file, 0);
    *file = (luaL_Stream){NULL, NULL};
    luaL_setmetatable(L, LUA_FILEHANDLE);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail(L, path, errno);
    bool found = is_file(fd);
    if (!found || !push_place(L, fd) || (file->f = fdopen(fd, "rb")) == NULL) {
        int error = errno;
        close(fd);
        return found ? fail(L, path, error) : fail_with(L, path, "not a regular file", "IO");
    }
    file->closef = close_file;
    return 2;
}

PONDER_MODULE int luaopen_ponder_core_directory(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_directory(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"__gc", directory_gc}, {"__close", directory_gc}, {NULL, NULL}};
    luaL_newmetatable(L, DIRECTORY);
    luaL_setfuncs(L, methods, 0);
    lua_pop(L, 1);
    static const luaL_Reg functions[] = {
        {"files", directory_files}, {"open", directory_open}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
