/* api.h -- what the Lua modules of src/api share. */
#ifndef PONDER_API_API_H
#define PONDER_API_API_H

#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/buffer.h"
#include "loop/loop.h"

/* Defines a luaopen_ function: the shared object exports nothing else. */
#define PONDER_MODULE(open)                                                                        \
    __attribute__((visibility("default"))) int open(lua_State *L);                                 \
    int open(lua_State *L)

/* The state's allocator, for the core: one memory limit covers C and Lua. */
static inline Alloc api_alloc(lua_State *L)
{
    Alloc a;
    a.fn = lua_getallocf(L, &a.ud);
    return a;
}

/* Set a field of the table on top of the stack. */
static inline void api_set_integer(lua_State *L, const char *name, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

static inline void api_set_number(lua_State *L, const char *name, lua_Number value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static inline void api_set_boolean(lua_State *L, const char *name, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

/* NULL: nil. */
static inline void api_set_string(lua_State *L, const char *name, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, name);
}

/* Read a field, which Lua has checked, of the table at `arg`. Nil leaves *value as it is; an
 * integer is brought between min and max; a wrong type raises. A string stays on the stack, so that
 * it lives as long as *value is used. */
void api_read_integer(lua_State *L, int arg, const char *name, int64_t min, int64_t max,
                      int64_t *value);
void api_read_boolean(lua_State *L, int arg, const char *name, bool *value);
void api_read_string(lua_State *L, int arg, const char *name, const char **value);

/* The results of a failure: nil, message, and a code unless that is NULL. */
static inline int api_fail(lua_State *L, const char *message, const char *code)
{
    luaL_pushfail(L);
    lua_pushstring(L, message);
    if (code == NULL)
        return 2;
    lua_pushstring(L, code);
    return 3;
}

/* Those of a failure with a file: nil, "PATH: why", code. */
static inline int api_fail_file(lua_State *L, const char *path, const char *why, const char *code)
{
    return api_fail(L, lua_pushfstring(L, "%s: %s", path, why), code);
}

/* NOT_FOUND: the path cannot be a file. */
static inline const char *api_errno_code(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EISDIR ? "NOT_FOUND"
           : error == EEXIST                                      ? "EXISTS"
                                                                  : "IO";
}

static inline int api_fail_errno(lua_State *L, const char *path, int error)
{
    return api_fail_file(L, path, strerror(error), api_errno_code(error));
}

static inline int api_close_file(lua_State *L)
{
    luaL_Stream *file = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    return luaL_fileresult(L, fclose(file->f) == 0, NULL);
}

/* Pushes a Lua file, closed until api_open_file gives it a descriptor. That takes the descriptor,
 * and fails with errno. */
static inline luaL_Stream *api_new_file(lua_State *L)
{
    luaL_Stream *file = lua_newuserdatauv(L, sizeof *file, 0);
    *file = (luaL_Stream){NULL, NULL};
    luaL_setmetatable(L, LUA_FILEHANDLE);
    return file;
}

static inline bool api_open_file(luaL_Stream *file, int fd, const char *mode)
{
    file->f = fdopen(fd, mode);
    if (file->f == NULL) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    file->closef = api_close_file;
    return true;
}

/* Pushes "name NUL value NUL"... as a table with room for `count`. The values of a repeated name
 * are joined by ", ", or only the first of them counts. */
static inline void api_push_pairs(lua_State *L, const Buffer *pairs, int count, bool joins)
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

/* ---- boxes: userdata that own what has to be closed ----
 *
 * Making a Lua value may run the collector, and so finalizers, which may close any box. A function
 * that makes values while it reads what a box owns is therefore the body of api_use_box; any other
 * reads all its arguments first, and then asks for the box.
 *
 * A box is closed by its method `close`, `__close` or `__gc`, however that is called; while it is
 * used, at the end of the use. A forked child neither uses nor closes its parent's boxes.
 */
typedef struct Box { /* the first member of the userdata */
    void *held;      /* what it owns; NULL: closed */
    void (*close)(void *held);
    struct Box *owner; /* used whenever this one is, or NULL; kept in a user value */
    pid_t process;     /* that opened it */
    int uses;
    bool closing; /* when the last use ends */
} Box;

enum { BOX_VALUES = 2 /* user values of a box */ };

/* Pushes a closed box, zero behind its Box. Setting `held` opens it. */
void *api_new_box(lua_State *L, const char *name, size_t size, void (*close)(void *held));

/* "is closed" or another reason why this process cannot use it, or NULL. */
const char *api_box_problem(const Box *b);

/* What the box at argument 1 holds; errors call it `what`. */
void *api_check_box(lua_State *L, const char *name, const char *what);

/* The same for the body of api_use_box. */
static inline void *api_held(lua_State *L)
{
    return ((const Box *)lua_touserdata(L, 1))->held;
}

/* Calls `body` with all that is on the stack, while the box at `index`, which is open, is in use:
 * only one body at a time can use it, and the loop does not run. Returns the number of results. */
int api_use_box(lua_State *L, int index, lua_CFunction body);

/* Marks it as closed; returns what is to be freed now, or NULL. */
void *api_empty_box(Box *b);

/* Methods: close a box; return the number of the port that what it holds begins with. */
int api_close(lua_State *L);
int api_port(lua_State *L);

/* Whether the collector called the running function, as a finalizer: for userdata that only own
 * memory, and whose methods use it while they make values. */
bool api_is_collected(lua_State *L);

/* ---- classes ---- */

static const luaL_Reg no_methods[] __attribute__((unused)) = {{NULL, NULL}};

/* Makes the metatable of boxes of that name, with the methods, whose upvalue is the name. */
void api_new_class(lua_State *L, const char *name, const luaL_Reg *methods);

#endif
