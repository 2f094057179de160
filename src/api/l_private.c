/* l_private.c -- ponder.core.private: files that only their owner can read (store/private.h). */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "loop/system.h"
#include "store/private.h"

enum { CHUNK = 4096, PERMISSIONS = 07777 };

/* ---- what kind of file it is ---- */

static const char *kind_of(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

/* private.about(path, follow) -> {kind=, mode=, uid=, is_own=, links=}, with follow also path=; or
 * nil, message, code */
static int private_about(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    char absolute[PATH_MAX];
    struct stat file;
    bool follow = lua_toboolean(L, 2);
    if (fstatat(AT_FDCWD, path, &file, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
        return api_fail_errno(L, path, errno);
    lua_createtable(L, 0, 6);
    if (follow && realpath(path, absolute) != NULL)
        api_set_string(L, "path", absolute);
    api_set_string(L, "kind", kind_of(file.st_mode));
    api_set_integer(L, "mode", (lua_Integer)(file.st_mode & PERMISSIONS));
    api_set_integer(L, "uid", (lua_Integer)file.st_uid);
    api_set_boolean(L, "is_own", file.st_uid == geteuid());
    api_set_integer(L, "links", (lua_Integer)file.st_nlink);
    return 1;
}

/* ---- reading ---- */

static const char *secrecy_problem(int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
        return "is not a regular file";
    if (file.st_uid != geteuid())
        return "belongs to another user";
    return (file.st_mode & 077) != 0 ? "others may read or write it: chmod 600 makes it private"
                                     : NULL;
}

/* Pushes what can be read; returns 0 or an errno value. */
static int push_content(lua_State *L, int fd)
{
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    ssize_t n;
    while ((n = read(fd, luaL_prepbuffsize(&text, CHUNK), CHUNK)) > 0)
        luaL_addsize(&text, (size_t)n);
    int error = n < 0 ? errno : 0;
    luaL_pushresult(&text);
    return error;
}

/* private.read(path) -> text; or nil, message, code */
static int private_read(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    luaL_Stream *file = api_new_file(L); /* owns the descriptor if memory is short */
    lua_toclose(L, -1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || !api_open_file(file, fd, "rb"))
        return api_fail_errno(L, path, errno);
    const char *problem = secrecy_problem(fd);
    if (problem != NULL)
        return api_fail_file(L, path, problem, "NOT_PRIVATE");
    int error = push_content(L, fd);
    return error != 0 ? api_fail_errno(L, path, error) : 1;
}

/* ---- writing ---- */

static int write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno != EINTR)
            return errno;
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

/* private.write(path, text, is_new) -> true; or nil, message, code. All or nothing. */
static int private_write(lua_State *L)
{
    offline_refuse(L, "private.write");
    size_t size;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
    bool is_new = lua_toboolean(L, 3);
    const char *temporary = lua_pushfstring(L, "%s.%d.tmp", path, (int)getpid());
    unlink(temporary);
    int fd = private_create(temporary);
    if (fd < 0)
        return api_fail_errno(L, path, errno);
    int error = write_all(fd, text, size);
    close(fd);
    if (error == 0)
        error = (is_new ? system_rename_new : rename)(temporary, path) == 0 ? 0 : errno;
    if (error != 0) {
        unlink(temporary);
        return api_fail_errno(L, path, error);
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* private.open(path) -> a Lua file, truncated for writing; or nil, message, code */
static int private_open_file(lua_State *L)
{
    offline_refuse(L, "private.open");
    const char *path = luaL_checkstring(L, 1), *why;
    luaL_Stream *file = api_new_file(L);
    int fd = private_open(path, &why);
    if (fd < 0)
        return why != NULL ? api_fail_file(L, path, why, "NOT_PRIVATE")
                           : api_fail_errno(L, path, errno);
    return api_open_file(file, fd, "w") ? 1 : api_fail_errno(L, path, errno);
}

/* Removes others' permissions of our own directory; NULL, or why it cannot. */
static const char *make_private(const char *path)
{
    struct stat directory;
    if (stat(path, &directory) != 0)
        return strerror(errno);
    if (directory.st_uid != geteuid())
        return "belongs to another user";
    if ((directory.st_mode & 077) != 0 && chmod(path, directory.st_mode & 0700) != 0)
        return strerror(errno);
    return NULL;
}

/* private.make_directory(path, is_strict) -> true; or nil, message, code */
static int private_make_directory(lua_State *L)
{
    offline_refuse(L, "private.make_directory");
    const char *path = luaL_checkstring(L, 1);
    struct stat directory;
    int error = private_make_directories(path);
    if (error == 0 && stat(path, &directory) == 0 && !S_ISDIR(directory.st_mode))
        error = ENOTDIR;
    if (error != 0)
        return api_fail_file(
            L, path, lua_pushfstring(L, "cannot create this directory: %s", strerror(error)),
            api_errno_code(error));
    const char *problem = lua_toboolean(L, 2) ? make_private(path) : NULL;
    if (problem != NULL)
        return api_fail_file(L, path, problem, "NOT_PRIVATE");
    lua_pushboolean(L, 1);
    return 1;
}

/* private.tighten(path): removes others' permissions, if the file is ours. */
static int private_tighten_file(lua_State *L)
{
    offline_refuse(L, "private.tighten");
    private_tighten(luaL_checkstring(L, 1));
    return 0;
}

PONDER_MODULE(luaopen_ponder_core_private)
{
    static const luaL_Reg functions[] = {
        {"about", private_about},
        {"make_directory", private_make_directory},
        {"open", private_open_file},
        {"read", private_read},
        {"tighten", private_tighten_file},
        {"write", private_write},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
