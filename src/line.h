/* line.h -- the Lua module ponder.core.line: reads a line, with editing, history and completion. */
#ifndef PONDER_LINE_H
#define PONDER_LINE_H

#include <lua.h>

/* Pushes the module. */
int line_open(lua_State *L);

#endif
