/*
 * line.c -- see line.h. libedit reads the keys: at a prompt nothing else runs.
 *
 * A signal interrupts the reading, which then returns nothing; libedit prepares the terminal for it
 * (EL_SIGNAL) and passes it on to our handlers, or stops the process.
 */
#include "line.h"

#include <errno.h>
#include <histedit.h>
#include <lauxlib.h>
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "api/task_stop.h"

enum { MAX_HISTORY = 1000 };

static EditLine *editor; /* NULL: standard input is not a terminal */
static History *history_list;
static const char *prompt;
static lua_State *reading; /* while line.read runs: its arguments are the prompt and a function */

static char *show_prompt(EditLine *e)
{
    (void)e;
    return (char *)(size_t)prompt; /* libedit's type lacks a const */
}

/* complete, the text before the cursor -> what continues it; whether something was printed */
static int call_complete(lua_State *L)
{
    const LineInfo *line = lua_touserdata(L, 2);
    lua_pushvalue(L, 1);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    lua_call(L, 1, 2);
    luaL_checkstring(L, -2);
    return 2;
}

/* The tabulator. An error completes nothing. */
static unsigned char complete(EditLine *e, int key)
{
    lua_State *L = reading;
    (void)key;
    lua_pushcfunction(L, call_complete);
    lua_pushvalue(L, 2);
    lua_pushlightuserdata(L, (void *)(size_t)el_line(e));
    bool found = lua_pcall(L, 2, 2, 0) == LUA_OK;
    unsigned char result = CC_ERROR;
    if (found && lua_toboolean(L, -1))
        result = CC_REDISPLAY;
    else if (found && lua_rawlen(L, -2) > 0 && el_insertstr(e, lua_tostring(L, -2)) == 0)
        result = CC_REFRESH;
    lua_settop(L, 2);
    return result;
}

static void open_editor(void)
{
    HistEvent event;
    if (editor != NULL || !isatty(STDIN_FILENO))
        return;
    editor = el_init("ponder", stdin, stdout, stderr);
    history_list = editor != NULL ? history_init() : NULL;
    if (history_list == NULL)
        return;
    history(history_list, &event, H_SETSIZE, MAX_HISTORY);
    history(history_list, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_HIST, history, history_list);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 1);
    el_set(editor, EL_PROMPT, show_prompt);
    el_set(editor, EL_ADDFN, "ponder-complete", "Completes a name", complete);
    el_set(editor, EL_BIND, "\t", "ponder-complete", NULL);
    el_source(editor, NULL); /* the user's ~/.editrc */
}

static int read_plain_line(lua_State *L)
{
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    int c;
    while ((c = getchar()) != EOF && c != '\n')
        luaL_addchar(&line, (char)c);
    luaL_pushresult(&line);
    return c == EOF && lua_rawlen(L, -1) == 0 ? 0 : 1;
}

/* line.read(prompt, complete) -> the line without its end, or nil at the end of input. Raises if
 * the run is to stop. `complete(text)` returns what continues a text, "" for nothing, and whether
 * it has printed something. */
static int line_read(lua_State *L)
{
    static locale_t unicode; /* of the keys, whatever the locale of the process */
    prompt = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    open_editor();
    if (editor == NULL)
        return read_plain_line(L);
    if (unicode == (locale_t)0)
        unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    reading = L;
    int size;
    locale_t before = uselocale(unicode);
    const char *line;
    do /* again after Ctrl-Z where nobody could continue the process */
        line = el_gets(editor, &size);
    while (line == NULL && size < 0 && errno == EINTR && !task_stop_is_pending());
    uselocale(before);
    if (task_stop_is_pending()) {
        clearerr(stdin);
        return task_stop_raise(L);
    }
    if (line == NULL || size <= 0)
        return 0;
    lua_pushlstring(L, line, (size_t)size - (line[size - 1] == '\n'));
    return 1;
}

/* line.remember(line): adds it to the history. */
static int line_remember(lua_State *L)
{
    HistEvent event;
    const char *line = luaL_checkstring(L, 1);
    if (history_list != NULL)
        history(history_list, &event, H_ENTER, line);
    return 0;
}

/* line.load_history(path), line.save_history(path): errors are ignored. */
static int line_load_history(lua_State *L)
{
    HistEvent event;
    const char *path = luaL_checkstring(L, 1);
    open_editor();
    if (history_list != NULL)
        history(history_list, &event, H_LOAD, path);
    return 0;
}

static int line_save_history(lua_State *L)
{
    HistEvent event;
    offline_refuse(L, "line.save_history");
    const char *path = luaL_checkstring(L, 1);
    if (history_list != NULL)
        history(history_list, &event, H_SAVE, path);
    return 0;
}

int line_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"load_history", line_load_history}, {"read", line_read}, {"remember", line_remember},
        {"save_history", line_save_history}, {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
