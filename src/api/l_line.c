/*
 * l_line.c -- ponder.core.line: one line of input, with editing and history.
 *
 * libedit or libreadline is loaded when the first line is read, if the machine has one; the
 * executable does not depend on either. Without one, or where input is not a terminal, lines are
 * read plainly.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"

typedef struct Editor {
    char *(*readline)(const char *prompt);
    int (*add_history)(const char *line);
    int (*read_history)(const char *path);
    int (*write_history)(const char *path);
} Editor;

/* POSIX lets an object pointer from dlsym be a function; ISO C needs this way round. */
static void *symbol(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address;
}

static Editor *editor(void)
{
    static Editor loaded;
    static bool tried;
    static const char *const names[] = {"libedit.so.2", "libreadline.so.8", "libedit.so",
                                        "libreadline.so"};
    for (size_t i = 0; !tried && i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            continue;
        if (symbol(library, "readline", &loaded.readline) != NULL &&
            symbol(library, "add_history", &loaded.add_history) != NULL) {
            symbol(library, "read_history", &loaded.read_history);
            symbol(library, "write_history", &loaded.write_history);
            break;
        }
        dlclose(library);
        memset(&loaded, 0, sizeof loaded);
    }
    tried = true;
    return loaded.readline != NULL && isatty(STDIN_FILENO) ? &loaded : NULL;
}

static int read_plain_line(lua_State *L, const char *prompt)
{
    if (isatty(STDIN_FILENO)) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    int c;
    while ((c = getchar()) != EOF && c != '\n')
        luaL_addchar(&line, (char)c);
    luaL_pushresult(&line);
    if (c == EOF && lua_rawlen(L, -1) == 0)
        return 0;
    return 1;
}

/* line.read(prompt) -> the line without its end, or nil at the end of input. */
static int line_read(lua_State *L)
{
    const char *prompt = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit == NULL)
        return read_plain_line(L, prompt);
    char *line = edit->readline(prompt);
    if (line == NULL)
        return 0;
    char **box = lua_newuserdatauv(L, sizeof *box, 0); /* owns the line while Lua copies it */
    *box = line;
    luaL_setmetatable(L, "ponder.core.line");
    lua_pushstring(L, line);
    free(*box);
    *box = NULL;
    return 1;
}

static int line_gc(lua_State *L)
{
    char **box = luaL_checkudata(L, 1, "ponder.core.line");
    free(*box);
    *box = NULL;
    return 0;
}

/* line.remember(line): adds to the history, where there is one. */
static int line_remember(lua_State *L)
{
    const char *line = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit != NULL)
        edit->add_history(line);
    return 0;
}

/* line.load_history(path), line.save_history(path): where there is a history; errors are ignored.
 */
static int line_load_history(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit != NULL && edit->read_history != NULL)
        edit->read_history(path);
    return 0;
}

static int line_save_history(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit != NULL && edit->write_history != NULL)
        edit->write_history(path);
    return 0;
}

PONDER_MODULE int luaopen_ponder_core_line(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_line(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"load_history", line_load_history}, {"read", line_read}, {"remember", line_remember},
        {"save_history", line_save_history}, {NULL, NULL},
    };
    luaL_newmetatable(L, "ponder.core.line");
    lua_pushcfunction(L, line_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, functions);
    return 1;
}
