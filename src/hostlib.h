/* hostlib.h -- the Lua module ponder.core.host: this process, its limits, its embedded files. */
#ifndef PONDER_HOSTLIB_H
#define PONDER_HOSTLIB_H

#include <lua.h>
#include <stddef.h>

/* A file built into the executable; the table is sorted by name and ends with NULL. */
typedef struct EmbeddedFile {
    const char *name;    /* as in the checkout: "lua/ponder/search.lua" */
    const char *content; /* text of a prompt file, compiled code of a module */
    size_t size;
} EmbeddedFile;

/* The built-in file of that name, or NULL. */
const EmbeddedFile *embedded_find(const char *name);

/* Pushes the module, for a state whose allocator is memory_resize. */
int hostlib_open(lua_State *L);

#endif
