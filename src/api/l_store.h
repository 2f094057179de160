/* l_store.h -- what the files of ponder.core.store share. */
#ifndef PONDER_API_L_STORE_H
#define PONDER_API_L_STORE_H

#include "api/api.h"
#include "store/store.h"

#define STORE      "ponder.store.Store"
#define STORE_ROWS "ponder.store.Rows"

enum { STORE_PATH = 1, STORE_HIDDEN }; /* user values of a store */

typedef struct LuaStore {
    Box box;
    Store store;
} LuaStore;

/* The value at `index`, which must be an open store of this process. */
Store *store_check(lua_State *L, int index, const char *where);

/* The same for argument 1. */
Store *store_self(lua_State *L, const char *where);

/* Argument `index`, which must be a string. */
const char *store_text(lua_State *L, int index, const char *where, const char *name, size_t *size);

/* -> nil, "FILE: what is wrong", code; `store` is the index of the store's userdata. */
int store_push_failure(lua_State *L, int store, const StoreError *e);

/* Methods in l_store_rows.c. */
int store_l_execute(lua_State *L);
int store_l_rows(lua_State *L);
int store_l_columns(lua_State *L);
int store_l_row(lua_State *L);

/* Replaces the texts that the store at `store` hides in the strings from `first` to the top. */
void store_hide_values(lua_State *L, int store, int first);

#endif
