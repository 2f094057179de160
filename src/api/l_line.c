/*
 * l_line.c -- ponder.core.line: reads a line of input, with editing and history.
 *
 * libreadline or libedit is loaded when the first line is read, if the machine has one, so the
 * executable depends on neither. Without them, or if input is not a terminal, it reads plain lines.
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
#include "api/offline.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define LINE "ponder.core.line"

typedef struct Editor {
    char *(*readline)(const char *prompt);
    int (*add_history)(const char *line);
    int (*read_history)(const char *path);
    int (*write_history)(const char *path);
    int (*getc)(FILE *in); /* from here on libreadline's; NULL with libedit */
    void (*prep_terminal)(int meta);
    void (*deprep_terminal)(void);
    int (*forced_update_display)(void);
    void (*resize_terminal)(void);
} Editor;

static Editor loaded; /* all NULL: none */

/* ISO C does not allow casting an object pointer to a function pointer: copies it instead. */
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

/* Restores the terminal's settings before the process stops. */
static void on_suspend(void *arg)
{
    (void)arg;
    loaded.deprep_terminal();
    raise(SIGSTOP);
}

static void on_continue(void *arg)
{
    (void)arg;
    loaded.deprep_terminal(); /* after a SIGSTOP libreadline believes it is still prepared */
    loaded.prep_terminal(1);
    loaded.forced_update_display();
}

static void on_resize(void *arg)
{
    (void)arg;
    loaded.resize_terminal();
}

/* Waits for a key or a request to stop. Opens the terminal again, since the loop makes open files
 * non-blocking, which the shell's must not become. */
static void wait_for_key(int fd)
{
    static const struct {
        int number;
        LoopOnEvent callback;
    } signals[] = {{SIGTSTP, on_suspend}, {SIGCONT, on_continue}, {SIGWINCH, on_resize}};
    enum { SIGNALS = sizeof signals / sizeof signals[0] };
    LoopHandle *caught[SIGNALS];
    LoopPort port;
    const char *name = ttyname(fd);
    int own = name != NULL ? open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    LoopHandle *keys = own >= 0 ? loop_watch(own, LOOP_READ, on_input, &port) : NULL;
    loop_port_open(&port);
    for (int i = 0; i < SIGNALS; i++)
        caught[i] = loop_signal(signals[i].number, signals[i].callback, NULL);
    int error = 0;
    while (keys != NULL && !port.posted && !task_stop_is_pending() && error == 0)
        error = loop_wait(&port, -1);
    for (int i = 0; i < SIGNALS; i++)
        loop_end(caught[i]);
    loop_end(keys);
    loop_unpost(&port);
    if (own >= 0)
        close(own);
}

/* libreadline would continue after Ctrl-C: EOF ends the line, and line_read raises the stop. */
static int get_character(FILE *in)
{
    wait_for_key(fileno(in));
    return task_stop_is_pending() ? EOF : loaded.getc(in);
}

/* Makes libreadline read through get_character, leave signals to us, and not print bracketed-paste
 * codes. (libedit keeps its own reading: it would take the bytes of such a function for
 * characters.)
 */
static void hook_reading(void *library)
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
    /* libreadline first: libedit does not wait for keys in the loop. */
    static const char *const names[] = {"libreadline.so.8", "libreadline.so", "libedit.so.2",
                                        "libedit.so"};
    for (size_t i = 0; !tried && i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            continue;
        if (symbol(library, "readline", &loaded.readline) != NULL &&
            symbol(library, "add_history", &loaded.add_history) != NULL) {
            symbol(library, "read_history", &loaded.read_history);
            symbol(library, "write_history", &loaded.write_history);
            hook_reading(library);
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

/* line.read(prompt) -> the line without its end, or nil at the end of input. Raises on Ctrl-C. */
static int line_read(lua_State *L)
{
    const char *prompt = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit == NULL) {
        int results = read_plain_line(L, prompt);
        raise_if_stopped(L);
        return results;
    }
    Box *box = api_new_box(L, LINE, sizeof *box, free); /* owns the line while Lua copies it */
    box->held = edit->readline(prompt);
    if (box->held == NULL)
        return raise_if_stopped(L);
    lua_pushstring(L, box->held);
    free(api_empty_box(box));
    return 1;
}

/* line.remember(line): adds it to the history, if there is one. */
static int line_remember(lua_State *L)
{
    const char *line = luaL_checkstring(L, 1);
    Editor *edit = editor();
    if (edit != NULL)
        edit->add_history(line);
    return 0;
}

/* line.load_history(path), line.save_history(path): errors are ignored. */
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

PONDER_MODULE(luaopen_ponder_core_line)
{
    static const luaL_Reg functions[] = {
        {"load_history", line_load_history}, {"read", line_read}, {"remember", line_remember},
        {"save_history", line_save_history}, {NULL, NULL},
    };
    api_new_class(L, LINE, no_methods);
    luaL_newlib(L, functions);
    return 1;
}
