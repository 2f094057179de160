/*
 * l_line.c -- ponder.core.line: one line of input, with editing and history.
 *
 * libedit or libreadline is loaded when the first line is read, if the machine has one; the
 * executable does not depend on either. Without one, or where input is not a terminal, lines are
 * read plainly.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/l_task.h"
#include "api/offline.h"
#include "loop/loop.h"

typedef struct Editor {
    char *(*readline)(const char *prompt);
    int (*add_history)(const char *line);
    int (*read_history)(const char *path);
    int (*write_history)(const char *path);
    int (*getc)(FILE *in); /* libreadline's own, and what follows; NULL with libedit */
    void (*prep_terminal)(int meta);
    void (*deprep_terminal)(void);
    int (*forced_update_display)(void);
    void (*resize_terminal)(void);
} Editor;

static Editor loaded; /* all NULL: none */

/* POSIX lets an object pointer from dlsym be a function; ISO C needs this way round. */
static void *symbol(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address;
}

static void on_input(void *port, int fd, int events)
{
    (void)fd, (void)events;
    loop_post(port);
}

/* Whoever goes on with the terminal finds it as it was before the line. */
static void on_suspend(void *arg)
{
    (void)arg;
    loaded.deprep_terminal();
    raise(SIGSTOP);
}

static void on_continue(void *arg)
{
    (void)arg;
    loaded.deprep_terminal(); /* after a SIGSTOP from elsewhere it counts as prepared */
    loaded.prep_terminal(1);
    loaded.forced_update_display();
}

static void on_resize(void *arg)
{
    (void)arg;
    loaded.resize_terminal();
}

/* Waits for a key or for what stops the script. The loop makes what it watches non-blocking, which
 * the terminal of a shell must not become: it gets a description of its own. */
static void wait_for_key(int fd)
{
    static const struct {
        int number;
        LoopOnEvent callback;
    } signals[] = {{SIGTSTP, on_suspend}, {SIGCONT, on_continue}, {SIGWINCH, on_resize}};
    enum { SIGNALS = sizeof signals / sizeof signals[0] };
    LoopSignal *caught[SIGNALS];
    LoopPort port;
    const char *name = ttyname(fd);
    int own = name != NULL ? open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    LoopWatch *keys = own >= 0 ? loop_watch(own, LOOP_READ, on_input, &port) : NULL;
    loop_port_open(&port);
    for (int i = 0; i < SIGNALS; i++)
        caught[i] = loop_signal(signals[i].number, signals[i].callback, NULL);
    while (keys != NULL && !port.posted && !task_stop_is_pending())
        loop_wait_for(&port, -1);
    for (int i = 0; i < SIGNALS; i++)
        loop_signal_end(caught[i]);
    loop_unwatch(keys);
    loop_port_close(&port);
    if (own >= 0)
        close(own);
}

/* libreadline would read on after Ctrl-C; the line ends (as at the end of input; who called us is
 * interrupted). */
static int get_character(FILE *in)
{
    wait_for_key(fileno(in));
    return task_stop_is_pending() ? EOF : loaded.getc(in);
}

/* libreadline reads through us, leaves signals to us, which wake the loop, and prints no codes
 * around what is pasted, as libedit does not. (libedit reads and handles signals by itself: its
 * function for a character gives bytes, which it takes for characters.) */
static void take_over_reading(void *library)
{
    int (**getc_function)(FILE *) = dlsym(library, "rl_getc_function");
    int *catch_signals = dlsym(library, "rl_catch_signals");
    int *catch_resize = dlsym(library, "rl_catch_sigwinch");
    int (*set)(const char *name, const char *value) = NULL;
    if (getc_function == NULL || catch_signals == NULL || catch_resize == NULL ||
        symbol(library, "rl_getc", &loaded.getc) == NULL ||
        symbol(library, "rl_prep_terminal", &loaded.prep_terminal) == NULL ||
        symbol(library, "rl_deprep_terminal", &loaded.deprep_terminal) == NULL ||
        symbol(library, "rl_forced_update_display", &loaded.forced_update_display) == NULL ||
        symbol(library, "rl_resize_terminal", &loaded.resize_terminal) == NULL)
        return;
    *getc_function = get_character;
    *catch_signals = *catch_resize = 0;
    if (symbol(library, "rl_variable_bind", &set) != NULL)
        set("enable-bracketed-paste", "off");
}

static Editor *editor(void)
{
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
            take_over_reading(library);
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

static int raise_if_stopped(lua_State *L)
{
    if (!task_stop_is_pending())
        return 0;
    clearerr(stdin);
    return task_stop_raise(L);
}

/* line.read(prompt) -> the line without its end, or nil at the end of input. Raises what ends the
 * read early: Ctrl-C. */
static int line_read(lua_State *L)
{
    const char *prompt = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit == NULL) {
        int results = read_plain_line(L, prompt);
        raise_if_stopped(L);
        return results;
    }
    char *line = edit->readline(prompt);
    if (line == NULL)
        return raise_if_stopped(L);
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
    offline_refuse(L, "line.save_history");
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
