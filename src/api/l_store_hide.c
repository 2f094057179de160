/* l_store_hide.c -- store:hide, which keeps API keys and the like out of a store. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "api/l_store.h"

/* self, texts, mark: from now on writes `mark` in place of any of the texts. */
int store_l_hide(lua_State *L)
{
    store_self(L, "hide");
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checkstring(L, 3);
    lua_Integer n = luaL_len(L, 2);
    lua_createtable(L, (int)n + 1, 0); /* mark, texts... */
    lua_pushvalue(L, 3);
    lua_rawseti(L, -2, 1);
    for (lua_Integer i = 1; i <= n; i++) {
        if (lua_geti(L, 2, i) != LUA_TSTRING || lua_rawlen(L, -1) == 0)
            return luaL_error(L, "store.hide: texts[%d] must be a non-empty string (got %s)",
                              (int)i, luaL_tolstring(L, -1, NULL));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setiuservalue(L, 1, STORE_HIDDEN);
    return 0;
}

/* Replaces `secret` in the string at `index`. */
static void hide(lua_State *L, int index, const char *secret, size_t n, const char *mark)
{
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    const char *end = text + size, *at = memmem(text, size, secret, n);
    if (at == NULL)
        return;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (; at != NULL; at = memmem(text, (size_t)(end - text), secret, n)) {
        luaL_addlstring(&b, text, (size_t)(at - text));
        luaL_addstring(&b, mark);
        text = at + n;
    }
    luaL_addlstring(&b, text, (size_t)(end - text));
    luaL_pushresult(&b);
    lua_replace(L, index);
}

void store_hide_values(lua_State *L, int store, int first)
{
    int last = lua_gettop(L);
    if (lua_getiuservalue(L, store, STORE_HIDDEN) == LUA_TTABLE) {
        luaL_checkstack(L, 4 + LUA_MINSTACK, "store");
        lua_Integer count = (lua_Integer)lua_rawlen(L, last + 1);
        lua_rawgeti(L, last + 1, 1);
        const char *mark = lua_tostring(L, last + 2);
        for (lua_Integer i = 2; i <= count; i++) {
            size_t n;
            lua_rawgeti(L, last + 1, i);
            const char *secret = lua_tolstring(L, last + 3, &n);
            for (int index = first; index <= last; index++)
                if (lua_type(L, index) == LUA_TSTRING)
                    hide(L, index, secret, n, mark);
            lua_settop(L, last + 2);
        }
    }
    lua_settop(L, last);
}
