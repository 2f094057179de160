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
Alloc api_alloc(lua_State *L);

/* Set a field of the table on top of the stack. */
void api_set_integer(lua_State *L, const char *name, lua_Integer value);
void api_set_number(lua_State *L, const char *name, lua_Number value);
void api_set_boolean(lua_State *L, const char *name, bool value);
void api_set_string(lua_State *L, const char *name, const char *value); /* NULL: nil */

/* Read a field, which Lua has checked, of the table at `arg`. Nil leaves *value as it is; an
 * integer is brought between min and max; a wrong type raises. A string stays on the stack, so that
 * it lives as long as *value is used. */
void api_read_integer(lua_State *L, int arg, const char *name, int64_t min, int64_t max,
                      int64_t *value);
void api_read_boolean(lua_State *L, int arg, const char *name, bool *value);
void api_read_string(lua_State *L, int arg, const char *name, const char **value);

/* The results of a failure: nil, message, and a code unless that is NULL. */
int api_fail(lua_State *L, const char *message, const char *code);

/* Those of a failure with a file: nil, "PATH: why", code. */
int api_fail_file(lua_State *L, const char *path, const char *why, const char *code);

/* NOT_FOUND: the path cannot be a file. */
const char *api_errno_code(int error);

int api_fail_errno(lua_State *L, const char *path, int error);

/* A replay refuses to start programs, write files and open sockets, for which its log has no
 * results: from offline_begin on, for good, since a process that replays does nothing else.
 * offline_refuse then raises NOT_IN_REPLAY; `call` is the function's name in Lua. (guard.c has
 * Lua's own.) */
void offline_begin(void);
void offline_refuse(lua_State *L, const char *call);

/* Pushes a Lua file, closed until api_open_file gives it a descriptor. That takes the descriptor,
 * and fails with errno. */
luaL_Stream *api_new_file(lua_State *L);
bool api_open_file(luaL_Stream *file, int fd, const char *mode);

/* Pushes "name NUL value NUL"... as a table with room for `count`. The values of a repeated name
 * are joined by ", ", or only the first of them counts. */
void api_push_pairs(lua_State *L, const Buffer *pairs, int count, bool joins);

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
void *api_held(lua_State *L);

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

extern const luaL_Reg no_methods[];

/* Makes the metatable of boxes of that name, with the methods, whose upvalue is the name. */
void api_new_class(lua_State *L, const char *name, const luaL_Reg *methods);

#endif
