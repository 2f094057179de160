/*
 * l_terminal.c -- ponder.core.terminal: the size of a terminal and the width of texts.
 *
 * Widths come from the C library's Unicode table (wcwidth in the locale C.UTF-8), whatever the
 * locale of the process. Without that locale each character counts as one column.
 */
#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "api/api.h"

/* The bytes and width of a character. Invalid bytes and control characters count as one column. */
static size_t next_character(const char *at, size_t left, int *width)
{
    wchar_t c;
    mbstate_t state;
    memset(&state, 0, sizeof state);
    size_t bytes = mbrtowc(&c, at, left, &state);
    if (bytes == 0 || bytes > left) { /* NUL, or (size_t)-1 and -2 */
        *width = 1;
        return 1;
    }
    *width = wcwidth(c);
    if (*width < 0)
        *width = 1;
    return bytes;
}

/* The bytes of the longest prefix that fits into `columns`, with combining characters; its
 * width goes to *width. */
static size_t fit(const char *text, size_t size, lua_Integer columns, lua_Integer *width)
{
    static locale_t unicode;
    if (unicode == (locale_t)0)
        unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = uselocale(unicode); /* 0 changes nothing */
    size_t at = 0;
    *width = 0;
    while (at < size) {
        int w;
        size_t bytes = next_character(text + at, size - at, &w);
        if (*width + w > columns)
            break;
        *width += w;
        at += bytes;
    }
    uselocale(before);
    return at;
}

/* terminal.fit(text, columns) -> bytes, width of the longest prefix that fits */
static int terminal_fit(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_Integer width, columns = luaL_checkinteger(L, 2);
    lua_pushinteger(L, (lua_Integer)fit(text, size, columns, &width));
    lua_pushinteger(L, width);
    return 2;
}

/* terminal.size(fd) -> columns, rows; nil if it is not a terminal or its size is unknown */
static int terminal_size(lua_State *L)
{
    struct winsize size;
    if (ioctl((int)luaL_checkinteger(L, 1), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 0;
    lua_pushinteger(L, size.ws_col);
    lua_pushinteger(L, size.ws_row);
    return 2;
}

/* terminal.is_terminal(fd) -> whether a file descriptor is a terminal */
static int terminal_is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_terminal)
{
    static const luaL_Reg functions[] = {{"fit", terminal_fit},
                                         {"is_terminal", terminal_is_terminal},
                                         {"size", terminal_size},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
