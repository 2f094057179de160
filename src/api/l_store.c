/*
 * l_store.c -- ponder.core.store: stores, one SQLite file each. Described in
 * lua/ponder/meta/store.lua.
 *
 * Making a Lua value may run finalizers, and these may close the store whose row is being handed
 * over: after every value that is made, what SQLite owns is asked for anew.
 */
#include <errno.h>
#include <math.h>
#include <sha256.h>
#include <string.h>
#include <sys/statvfs.h>

#include "api/api.h"
#include "core/json.h"
#include "store/claim.h"
#include "store/store.h"

#define STORE "ponder.store.Store"
#define ROWS  "ponder.store.Rows"

enum { PATH = 1 }; /* user value of a store */

/* Rows to come: the iterator of rows() and columns(). Its user value is the store. */
typedef struct Rows {
    Store *store;
    sqlite3_stmt *statement; /* NULL: all were read */
    bool by_name;
} Rows;

/* ---- failures ---- */

/* "FILE: what is wrong"; `store` is the index of the store's userdata. */
static void push_message(lua_State *L, int store, const StoreError *e)
{
    lua_getiuservalue(L, store, PATH);
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), e->detail);
    lua_remove(L, -2);
}

/* -> nil, message, code */
static int fail(lua_State *L, int store, const StoreError *e)
{
    luaL_pushfail(L);
    push_message(L, store < 0 ? store - 1 : store, e);
    lua_pushstring(L, store_code(e->status));
    return 3;
}

/* Where nil would be taken for the end of the rows. */
static int raise(lua_State *L, int store, const StoreError *e)
{
    push_message(L, store, e);
    return lua_error(L);
}

static int no_values(lua_State *L, int store, StoreStatus status, const StoreError *e)
{
    if (status != STORE_OK)
        return fail(L, store, e);
    lua_pushboolean(L, 1);
    return 1;
}

static Store *to_store(lua_State *L, const char *where)
{
    Store *s = luaL_testudata(L, 1, STORE);
    if (s == NULL)
        luaL_error(L, "store.%s: self must be a store (got %s)", where, luaL_typename(L, 1));
    if (s->db == NULL)
        luaL_error(L, "store.%s: the store is closed", where);
    if (!store_is_ours(s))
        luaL_error(L, "store.%s: the store belongs to the process that opened it", where);
    return s;
}

static const char *check_text(lua_State *L, int index, const char *where, const char *name,
                              size_t *size)
{
    if (lua_type(L, index) != LUA_TSTRING)
        luaL_error(L, "store.%s: %s must be a string (got %s)", where, name,
                   luaL_typename(L, index));
    return lua_tolstring(L, index, size);
}

/* ---- values ---- */

/* Raises for what SQLite cannot hold. The values are on the stack from `first` on. */
static void check_values(lua_State *L, const Store *s, const char *where, int first)
{
    int limit = sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, -1);
    for (int i = first; i <= lua_gettop(L); i++) {
        int n = i - first + 1;
        switch (lua_type(L, i)) {
        case LUA_TNIL:
        case LUA_TBOOLEAN: break;
        case LUA_TNUMBER:
            if (isnan(lua_tonumber(L, i)))
                luaL_error(L, "store.%s: value %d is not a number, which SQLite cannot hold", where,
                           n);
            break;
        case LUA_TSTRING:
            if (lua_rawlen(L, i) > (lua_Unsigned)limit)
                luaL_error(L, "store.%s: value %d has more than %d bytes, SQLite's limit", where, n,
                           limit);
            break;
        default:
            luaL_error(L,
                       "store.%s: value %d must be nil, a boolean, a number or a string (got %s)",
                       where, n, luaL_typename(L, i));
        }
    }
}

static int bind_string(lua_State *L, int index, sqlite3_stmt *statement, int at,
                       sqlite3_destructor_type keep)
{
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    if (json_is_utf8(text, size))
        return sqlite3_bind_text(statement, at, text, (int)size, keep);
    return sqlite3_bind_blob(statement, at, text, (int)size, keep);
}

/* `keep`: whether SQLite copies strings, or these stay where they are until it has done. */
static int bind_values(lua_State *L, int first, sqlite3_stmt *statement,
                       sqlite3_destructor_type keep)
{
    int rc = SQLITE_OK, last = lua_gettop(L);
    for (int index = first; rc == SQLITE_OK && index <= last; index++) {
        int at = index - first + 1;
        switch (lua_type(L, index)) {
        case LUA_TBOOLEAN: rc = sqlite3_bind_int(statement, at, lua_toboolean(L, index)); break;
        case LUA_TSTRING: rc = bind_string(L, index, statement, at, keep); break;
        case LUA_TNUMBER:
            rc = lua_isinteger(L, index)
                     ? sqlite3_bind_int64(statement, at, lua_tointeger(L, index))
                     : sqlite3_bind_double(statement, at, lua_tonumber(L, index));
            break;
        default: rc = sqlite3_bind_null(statement, at);
        }
    }
    return rc;
}

/* The statement whose text stands before its values, bound; or NULL with the error. Mistakes in
 * the call raise. */
static sqlite3_stmt *take(lua_State *L, Store *s, const char *where, int first,
                          sqlite3_destructor_type keep, StoreError *e)
{
    size_t size;
    const char *sql = check_text(L, first - 1, where, "sql", &size);
    sqlite3_stmt *statement;
    check_values(L, s, where, first);
    StoreStatus status = store_take(s, sql, size, &statement, e);
    if (status == STORE_SQL)
        luaL_error(L, "store.%s: %s in: %s", where, e->detail, sql);
    if (status != STORE_OK)
        return NULL;
    if (statement == NULL)
        luaL_error(L, "store.%s: sql has no statement", where);
    int wanted = sqlite3_bind_parameter_count(statement), got = lua_gettop(L) - first + 1;
    if (wanted != got) {
        store_give_back(s, statement);
        luaL_error(L, "store.%s: the statement takes %d values (got %d): %s", where, wanted, got,
                   sql);
    }
    int rc = bind_values(L, first, statement, keep);
    if (rc == SQLITE_OK)
        return statement;
    store_fail_sqlite(e, s->db, rc);
    store_give_back(s, statement);
    return NULL;
}

static void push_column(lua_State *L, sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: lua_pushinteger(L, sqlite3_column_int64(statement, column)); break;
    case SQLITE_FLOAT: lua_pushnumber(L, sqlite3_column_double(statement, column)); break;
    case SQLITE_NULL: lua_pushnil(L); break;
    default: {
        const char *bytes = sqlite3_column_blob(statement, column);
        lua_pushlstring(L, bytes != NULL ? bytes : "",
                        (size_t)sqlite3_column_bytes(statement, column));
    }
    }
}

/* ---- statements ---- */

/* self, sql, values... -> changes | nil, message, code */
static int store_l_execute(lua_State *L)
{
    Store *s = to_store(L, "execute");
    StoreError e;
    sqlite3_stmt *statement = take(L, s, "execute", 3, SQLITE_STATIC, &e);
    if (statement == NULL)
        return fail(L, 1, &e);
    sqlite3_int64 before = sqlite3_total_changes64(s->db);
    bool row = true;
    StoreStatus status = STORE_OK;
    while (row && status == STORE_OK)
        status = store_step(s, statement, &row, &e);
    store_give_back(s, statement);
    if (status != STORE_OK)
        return fail(L, 1, &e);
    store_bound_wal(s);
    lua_pushinteger(L, sqlite3_total_changes64(s->db) - before);
    return 1;
}

/* self, sql -> true | nil, message, code */
static int store_l_script(lua_State *L)
{
    Store *s = to_store(L, "script");
    StoreError e;
    size_t size;
    const char *sql = check_text(L, 2, "script", "sql", &size);
    if (strlen(sql) != size)
        return luaL_error(L, "store.script: sql must not have a NUL in it");
    return no_values(L, 1, store_script(s, sql, &e), &e);
}

/* ---- rows ---- */

/* self, sql, values... -> Rows below them, which owns the statement */
static Rows *rows_new(lua_State *L, const char *where, bool by_name)
{
    Store *s = to_store(L, where);
    StoreError e;
    Rows *r = lua_newuserdatauv(L, sizeof *r, 1);
    *r = (Rows){s, NULL, by_name};
    luaL_setmetatable(L, ROWS);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_insert(L, 1);
    r->statement = take(L, s, where, 4, SQLITE_TRANSIENT, &e);
    if (r->statement == NULL)
        raise(L, 2, &e);
    return r;
}

static bool is_open(const Rows *r)
{
    return r->statement != NULL && r->store->db != NULL && store_is_ours(r->store);
}

static void check_open(lua_State *L, const Rows *r)
{
    if (!is_open(r))
        luaL_error(L, "store.rows: the store was closed between two rows");
}

static int rows_l_close(lua_State *L)
{
    Rows *r = luaL_checkudata(L, 1, ROWS);
    if (is_open(r))
        store_give_back(r->store, r->statement);
    r->statement = NULL;
    return 0;
}

/* Goes to the next row. `index` is that of the Rows. */
static bool next_row(lua_State *L, Rows *r, int index)
{
    StoreError e;
    bool row;
    check_open(L, r);
    StoreStatus status = store_step(r->store, r->statement, &row, &e);
    if (!row) {
        store_give_back(r->store, r->statement);
        r->statement = NULL;
    }
    if (status != STORE_OK) {
        lua_getiuservalue(L, index, 1);
        raise(L, lua_gettop(L), &e);
    }
    return row;
}

/* -> the row's values, or a table of them */
static int push_row(lua_State *L, const Rows *r)
{
    int count = sqlite3_column_count(r->statement);
    luaL_checkstack(L, count + LUA_MINSTACK, "too many columns");
    if (r->by_name)
        lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        check_open(L, r);
        if (r->by_name) {
            lua_pushstring(L, sqlite3_column_name(r->statement, i));
            check_open(L, r);
        }
        push_column(L, r->statement, i);
        if (r->by_name)
            lua_rawset(L, -3);
    }
    return r->by_name ? 1 : count;
}

static int rows_l_next(lua_State *L)
{
    int index = lua_upvalueindex(1);
    Rows *r = lua_touserdata(L, index);
    if (r->statement == NULL)
        return 0;
    return next_row(L, r, index) ? push_row(L, r) : 0;
}

/* -> iterator, nil, nil, Rows: the last is closed at the end of the loop, however it ends */
static int push_iterator(lua_State *L)
{
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, rows_l_next, 1);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushvalue(L, 1);
    return 4;
}

static int store_l_rows(lua_State *L)
{
    rows_new(L, "rows", false);
    return push_iterator(L);
}

static int store_l_columns(lua_State *L)
{
    rows_new(L, "columns", true);
    return push_iterator(L);
}

/* self, sql, values... -> values of the first row */
static int store_l_row(lua_State *L)
{
    Rows *r = rows_new(L, "row", false);
    if (!next_row(L, r, 1))
        return 0;
    int count = push_row(L, r);
    if (is_open(r))
        store_give_back(r->store, r->statement);
    r->statement = NULL;
    return count;
}

/* ---- transactions ---- */

static int store_l_begin(lua_State *L)
{
    Store *s = to_store(L, "begin");
    StoreError e;
    if (s->in_transaction)
        return luaL_error(L, "store.begin: a transaction is open already");
    return no_values(L, 1, store_begin(s, &e), &e);
}

static int store_l_commit(lua_State *L)
{
    Store *s = to_store(L, "commit");
    StoreError e;
    if (!s->in_transaction)
        return luaL_error(L, "store.commit: no transaction is open");
    return no_values(L, 1, store_commit(s, &e), &e);
}

/* Without a transaction there is nothing to do: a commit that failed has rolled back. */
static int store_l_rollback(lua_State *L)
{
    Store *s = to_store(L, "rollback");
    StoreError e;
    return no_values(L, 1, store_rollback(s, &e), &e);
}

/* self -> pages left in the WAL | nil, message, code */
static int store_l_checkpoint(lua_State *L)
{
    Store *s = to_store(L, "checkpoint");
    StoreError e;
    int left;
    if (store_checkpoint(s, &left, &e) != STORE_OK)
        return fail(L, 1, &e);
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
    static const char *const names[] = {"mode",           "sync",    "lock", "make_folders",
                                        "application_id", "version", "kind", "schema"};
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
        .make_folders = boolean_option(L, "make_folders", false),
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
    const char *path = check_text(L, 1, "open", "path", &size);
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
    Store *s = lua_newuserdatauv(L, sizeof *s, 1);
    s->db = NULL;
    luaL_setmetatable(L, STORE);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, PATH);
    if (store_open(s, path, &o, &e) != STORE_OK)
        return fail(L, -1, &e);
    return 1;
}

/* ---- what else a log needs ---- */

/* path -> whether somebody has it open as its writer | nil, message, code */
static int l_in_use(lua_State *L)
{
    const char *path = check_text(L, 1, "in_use", "path", NULL);
    StoreError e;
    Claim *claim;
    StoreStatus status = claim_take(path, false, &claim, &e);
    if (status == STORE_OK) {
        status = claim_lock(claim, &e);
        claim_drop(claim, status == STORE_OK);
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
    const char *text = check_text(L, 1, "sha256", "text", &size);
    uint8_t hash[SHA256_DIGEST_LENGTH];
    char hex[2 * SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, (const uint8_t *)text, size);
    SHA256Final(hash, &context);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    lua_pushlstring(L, hex, sizeof hex);
    return 1;
}

/* path -> bytes | nil, message, code */
static int l_free_bytes(lua_State *L)
{
    const char *path = check_text(L, 1, "free_bytes", "path", NULL);
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) {
        StoreError e;
        store_fail_errno(&e, "cannot be looked at", errno);
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
    {"checkpoint", store_l_checkpoint},
    {"close", store_l_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", l_open},     {"sha256", l_sha256}, {"free_bytes", l_free_bytes},
    {"in_use", l_in_use}, {NULL, NULL},
};

static void new_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction finish)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, finish);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, finish);
    lua_setfield(L, -2, "__close");
    lua_pop(L, 1);
}

PONDER_MODULE int luaopen_ponder_core_store(lua_State *L);

int luaopen_ponder_core_store(lua_State *L)
{
    static const luaL_Reg no_methods[] = {{NULL, NULL}};
    new_class(L, STORE, store_methods, store_l_finish);
    new_class(L, ROWS, no_methods, rows_l_close);
    luaL_newlib(L, functions);
    lua_pushstring(L, sqlite3_libversion());
    lua_setfield(L, -2, "sqlite_version");
    return 1;
}
