/*
 * l_store.c -- ponder.core.store: stores, one SQLite file each. Described in
 * lua/ponder/meta/store.lua.
 */
#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/statvfs.h>

#include "api/l_store.h"
#include "api/offline.h"

/* ---- failures ---- */

void store_push_message(lua_State *L, int store, const StoreError *e)
{
    lua_getiuservalue(L, store, STORE_PATH);
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), e->detail);
    lua_remove(L, -2);
}

int store_push_failure(lua_State *L, int store, const StoreError *e)
{
    luaL_pushfail(L);
    store_push_message(L, store < 0 ? store - 1 : store, e);
    lua_pushstring(L, store_code(e->status));
    return 3;
}

static int no_values(lua_State *L, int store, StoreStatus status, const StoreError *e)
{
    if (status != STORE_OK)
        return store_push_failure(L, store, e);
    lua_pushboolean(L, 1);
    return 1;
}

Store *store_check(lua_State *L, int index, const char *where)
{
    Store *s = luaL_testudata(L, index, STORE);
    if (s == NULL)
        luaL_error(L, "store.%s: self must be a store (got %s)", where, luaL_typename(L, index));
    if (s->db == NULL)
        luaL_error(L, "store.%s: the store is closed", where);
    if (!store_is_ours(s))
        luaL_error(L, "store.%s: the store belongs to the process that opened it", where);
    return s;
}

Store *store_self(lua_State *L, const char *where)
{
    return store_check(L, 1, where);
}

const char *store_text(lua_State *L, int index, const char *where, const char *name, size_t *size)
{
    if (lua_type(L, index) != LUA_TSTRING)
        luaL_error(L, "store.%s: %s must be a string (got %s)", where, name,
                   luaL_typename(L, index));
    return lua_tolstring(L, index, size);
}

/* ---- scripts and transactions ---- */

/* self, sql -> true | nil, message, code */
static int store_l_script(lua_State *L)
{
    Store *s = store_self(L, "script");
    StoreError e;
    size_t size;
    const char *sql = store_text(L, 2, "script", "sql", &size);
    if (strlen(sql) != size)
        return luaL_error(L, "store.script: sql must not have a NUL in it");
    return no_values(L, 1, store_script(s, sql, &e), &e);
}

static int store_l_begin(lua_State *L)
{
    Store *s = store_self(L, "begin");
    StoreError e;
    if (s->in_transaction)
        return luaL_error(L, "store.begin: a transaction is open already");
    return no_values(L, 1, store_begin(s, &e), &e);
}

static int store_l_commit(lua_State *L)
{
    Store *s = store_self(L, "commit");
    StoreError e;
    if (!s->in_transaction)
        return luaL_error(L, "store.commit: no transaction is open");
    return no_values(L, 1, store_commit(s, &e), &e);
}

/* Without a transaction there is nothing to do: a commit that failed has rolled back. */
static int store_l_rollback(lua_State *L)
{
    Store *s = store_self(L, "rollback");
    StoreError e;
    return no_values(L, 1, store_rollback(s, &e), &e);
}

static int store_l_publish(lua_State *L)
{
    Store *s = store_self(L, "publish");
    StoreError e;
    if (!s->staged)
        return luaL_error(L, "store.publish: the file has its name");
    return no_values(L, 1, store_publish(s, &e), &e);
}

/* self -> pages left in the WAL | nil, message, code */
static int store_l_checkpoint(lua_State *L)
{
    Store *s = store_self(L, "checkpoint");
    StoreError e;
    int left;
    if (store_checkpoint(s, &left, &e) != STORE_OK)
        return store_push_failure(L, 1, &e);
    lua_pushinteger(L, left);
    return 1;
}

/* ---- opening and closing ---- */

static int store_l_finish(lua_State *L)
{
    store_close(luaL_checkudata(L, 1, STORE), NULL);
    return 0;
}

/* self -> true | nil, message, code */
static int store_l_close(lua_State *L)
{
    Store *s = luaL_testudata(L, 1, STORE);
    StoreError e;
    if (s == NULL)
        return luaL_error(L, "store.close: self must be a store (got %s)", luaL_typename(L, 1));
    return no_values(L, 1, store_close(s, &e), &e);
}

static bool boolean_option(lua_State *L, const char *name, bool missing)
{
    int type = lua_getfield(L, 2, name);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        luaL_error(L, "store.open: opts.%s must be a boolean (got %s)", name, luaL_typename(L, -1));
    bool value = type == LUA_TNIL ? missing : lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* An unsigned number of 31 bits, as SQLite's header has them; -1 if there is none. */
static int64_t number_option(lua_State *L, const char *name)
{
    int is_integer = 1;
    lua_Integer value = -1;
    if (lua_getfield(L, 2, name) != LUA_TNIL) {
        value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_integer) : -1;
        if (!is_integer || value < 0 || value > 0x7fffffff)
            luaL_error(L, "store.open: opts.%s must be an integer from 0 to 2147483647 (got %s)",
                       name, luaL_tolstring(L, -1, NULL));
    }
    lua_pop(L, 1);
    return value;
}

/* Stays on the stack, so that it is not collected. */
static const char *text_option(lua_State *L, const char *name, const char *missing)
{
    int type = lua_getfield(L, 2, name);
    if (type == LUA_TNIL)
        return missing;
    if (type != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1))
        luaL_error(L, "store.open: opts.%s must be a string without NUL (got %s)", name,
                   luaL_typename(L, -1));
    return lua_tostring(L, -1);
}

static int choice_option(lua_State *L, const char *name, const char *const *choices)
{
    const char *text = text_option(L, name, choices[0]);
    int i = 0;
    while (choices[i] != NULL && strcmp(choices[i], text) != 0)
        i++;
    if (choices[i] == NULL)
        luaL_error(L, "store.open: opts.%s has no value \"%s\"", name, text);
    return i;
}

static void check_names(lua_State *L)
{
    static const char *const names[] = {"mode",           "sync",    "lock", "make_directories",
                                        "application_id", "version", "kind", "schema",
                                        "staged",         "check"};
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        bool known = false;
        for (size_t i = 0; !known && i < sizeof names / sizeof *names; i++)
            known = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), names[i]) == 0;
        if (!known)
            luaL_error(L, "store.open: unknown option %s", luaL_tolstring(L, -2, NULL));
    }
}

/* path, opts on the stack */
static void read_options(lua_State *L, StoreOptions *o)
{
    static const char *const modes[] = {"read", "write", "create", NULL};
    static const char *const syncs[] = {"normal", "full", NULL};
    check_names(L);
    *o = (StoreOptions){
        .mode = STORE_READ + (StoreMode)choice_option(L, "mode", modes),
        .full_sync = choice_option(L, "sync", syncs) == 1,
        .lock = boolean_option(L, "lock", true),
        .make_directories = boolean_option(L, "make_directories", false),
        .staged = boolean_option(L, "staged", false),
        .check = boolean_option(L, "check", false),
        .application_id = number_option(L, "application_id"),
        .version = number_option(L, "version"),
        .kind = text_option(L, "kind", "run log"),
        .schema = text_option(L, "schema", NULL),
    };
}

/* path, opts (table or nil) -> Store | nil, message, code */
static int l_open(lua_State *L)
{
    size_t size;
    StoreOptions o;
    StoreError e;
    const char *path = store_text(L, 1, "open", "path", &size);
    if (size == 0 || strlen(path) != size)
        return luaL_error(L, "store.open: path must not be empty, nor have a NUL in it");
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_newtable(L);
        lua_replace(L, 2);
    } else if (!lua_istable(L, 2)) {
        return luaL_error(L, "store.open: opts must be a table (got %s)", luaL_typename(L, 2));
    }
    read_options(L, &o);
    if (o.mode != STORE_READ)
        offline_refuse(L, "store.open for writing");
    Store *s = lua_newuserdatauv(L, sizeof *s, STORE_HIDDEN);
    s->db = NULL;
    luaL_setmetatable(L, STORE);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, STORE_PATH);
    if (store_open(s, path, &o, &e) != STORE_OK)
        return store_push_failure(L, -1, &e);
    return 1;
}

/* ---- what else a log needs ---- */

/* path -> whether somebody has it open as its writer | nil, message, code */
static int l_in_use(lua_State *L)
{
    const char *path = store_text(L, 1, "in_use", "path", NULL);
    StoreError e;
    Claim *claim;
    StoreStatus status = claim_open(path, false, &claim, &e);
    if (status == STORE_OK) {
        status = claim_lock(claim, &e);
        claim_close(claim, status == STORE_OK);
    }
    if (status != STORE_OK && status != STORE_LOCKED) {
        luaL_pushfail(L);
        lua_pushfstring(L, "%s: %s", path, e.detail);
        lua_pushstring(L, store_code(status));
        return 3;
    }
    lua_pushboolean(L, status == STORE_LOCKED);
    return 1;
}

/* text -> 64 hex digits */
static int l_sha256(lua_State *L)
{
    static const char digits[] = "0123456789abcdef";
    size_t size;
    const char *text = store_text(L, 1, "sha256", "text", &size);
    uint8_t hash[SHA256_DIGEST_SIZE];
    char hex[2 * SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, (const uint8_t *)text);
    sha256_digest(&context, sizeof hash, hash);
    for (int i = 0; i < SHA256_DIGEST_SIZE; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    lua_pushlstring(L, hex, sizeof hex);
    return 1;
}

/* path -> bytes | nil, message, code */
static int l_free_bytes(lua_State *L)
{
    const char *path = store_text(L, 1, "free_bytes", "path", NULL);
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) {
        StoreError e;
        store_fail_errno(&e, "cannot stat", errno);
        luaL_pushfail(L);
        lua_pushfstring(L, "%s: %s", path, e.detail);
        lua_pushstring(L, store_code(e.status));
        return 3;
    }
    lua_pushinteger(L, (lua_Integer)(disk.f_bavail * disk.f_frsize));
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg store_methods[] = {
    {"execute", store_l_execute},
    {"script", store_l_script},
    {"rows", store_l_rows},
    {"columns", store_l_columns},
    {"row", store_l_row},
    {"begin", store_l_begin},
    {"commit", store_l_commit},
    {"rollback", store_l_rollback},
    {"publish", store_l_publish},
    {"checkpoint", store_l_checkpoint},
    {"hide", store_l_hide},
    {"hold_back", store_l_hold_back},
    {"take_back", store_l_take_back},
    {"hold_commit", store_l_hold_commit},
    {"close", store_l_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", l_open},     {"sha256", l_sha256}, {"free_bytes", l_free_bytes},
    {"in_use", l_in_use}, {NULL, NULL},
};

PONDER_MODULE int luaopen_ponder_core_store(lua_State *L);

int luaopen_ponder_core_store(lua_State *L)
{
    static const luaL_Reg no_methods[] = {{NULL, NULL}};
    api_new_class(L, STORE, store_methods, store_l_finish);
    api_new_class(L, STORE_ROWS, no_methods, store_rows_close);
    luaL_newlib(L, functions);
    lua_pushstring(L, sqlite3_libversion());
    lua_setfield(L, -2, "sqlite_version");
    return 1;
}
