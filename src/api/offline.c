/* offline.c -- see offline.h. */
#include "api/offline.h"

#include <lauxlib.h>
#include <stdbool.h>

static bool is_offline;

void offline_begin(void)
{
    is_offline = true;
}

void offline_refuse(lua_State *L, const char *call)
{
    if (!is_offline)
        return;
    luaL_error(L,
               "NOT_IN_REPLAY: %s: a replay runs no program, writes no file and opens no socket; "
               "wrap what the log is to keep in log.record",
               call);
}
