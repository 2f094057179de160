/* l_directory.c -- ponder.core.directory: lists the files of a directory, and opens files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "loop/system.h"

#define DIRECTORY "ponder.core.directory"

static void close_directory(void *directory)
{
    closedir(directory);
}

/* Appends {name=, bytes=, modified_at=} to the list on top, if the entry is a file. */
static lua_Integer add_file(lua_State *L, DIR *directory, const char *name, lua_Integer count)
{
    struct stat about;
    if (fstatat(dirfd(directory), name, &about, 0) != 0 || !S_ISREG(about.st_mode))
        return count;
    lua_createtable(L, 0, 3);
    api_set_string(L, "name", name);
    api_set_integer(L, "bytes", (lua_Integer)about.st_size);
    api_set_number(L, "modified_at",
                   (lua_Number)about.st_mtim.tv_sec + (lua_Number)about.st_mtim.tv_nsec / 1e9);
    lua_rawseti(L, -2, count + 1);
    return count + 1;
}

/* box, path -> list | nil, message, code */
static int list_files(lua_State *L)
{
    DIR *directory = api_held(L);
    lua_newtable(L);
    lua_Integer count = 0;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(directory)))
        count = add_file(L, directory, entry->d_name, count);
    if (errno != 0)
        return api_fail_errno(L, lua_tostring(L, 2), errno);
    return 1;
}

/* directory.files(path) -> list of {name, bytes, modified_at}, unordered; or nil, message, code */
static int directory_files(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    Box *box = api_new_box(L, DIRECTORY, sizeof *box, close_directory);
    lua_insert(L, 1);
    box->held = opendir(path);
    if (!box->held)
        return api_fail_errno(L, path, errno);
    box->closing = true;
    return api_use_box(L, 1, list_files);
}

/* ---- one file ---- */

/* Opening must not block on a pipe, nor make a terminal the controlling one. */
static int directory_open(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    char real[PATH_MAX];
    struct stat about;
    luaL_Stream *file = api_new_file(L);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return api_fail_errno(L, path, errno);
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || system_is_made_up(fd)) {
        close(fd);
        return api_fail_file(L, path, "not a regular file", "IO");
    }
    if (!api_open_file(file, fd, "rb") || !system_real_path(fd, path, real))
        return api_fail_errno(L, path, errno);
    lua_pushstring(L, real);
    return 2;
}

PONDER_MODULE(luaopen_ponder_core_directory)
{
    static const luaL_Reg functions[] = {
        {"files", directory_files}, {"open", directory_open}, {NULL, NULL}};
    api_new_class(L, DIRECTORY, no_methods);
    luaL_newlib(L, functions);
    return 1;
}
