/* options.h -- reads a table of options from Lua into a C struct, by a list of its fields. */
#ifndef PONDER_API_OPTIONS_H
#define PONDER_API_OPTIONS_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum OptionKind {
    OPTION_INTEGER, /* int64_t, from min to max */
    OPTION_BOOLEAN, /* bool */
    OPTION_TEXT,    /* const char *: a string without NUL, which belongs to the table */
    OPTION_LINE,    /* the same, without line breaks */
    OPTION_CHOICE,  /* int: the index of the string in `choices` */
    OPTION_OTHER    /* a name that the caller reads itself */
} OptionKind;

typedef struct Option {
    const char *name; /* NULL ends a list */
    OptionKind kind;
    size_t offset; /* in the struct */
    lua_Integer min, max;
    const char *const *choices; /* ends in NULL */
} Option;

/* Stores what the table at `arg` (nil: empty) has into the struct `out`, which holds the defaults.
 * Raises, for the function `where`, on an unknown name, a wrong type and a value out of range. */
void options_read(lua_State *L, int arg, const char *where, const Option *options, void *out);

/* Fields of a table at `arg` that Lua has already checked: an integer >= 0 (nil: 0), at most `max`;
 * a boolean; the index of a name (nil: 0). */
uint64_t options_integer(lua_State *L, int arg, const char *name, uint64_t max);
bool options_flag(lua_State *L, int arg, const char *name);
int options_name(lua_State *L, int arg, const char *name, const char *const *names);

/* Pushes a value as errors show it: nil, 0, "text", a table. */
const char *options_describe(lua_State *L, int index);

#endif
