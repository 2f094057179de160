/* l_store.c -- ponder.core.store: stores, one SQLite file each. Described in meta/store.lua. */
#include <errno.h>
#include <math.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/statvfs.h>

#include "api/api.h"
#include "core/json.h"
#include "store/store.h"

#define STORE      "ponder.store.Store"
#define STORE_ROWS "ponder.store.Rows"

enum { STORE_PATH = 1 }; /* user value of a store */

typedef struct LuaStore {
    Box box;
    Store store;
} LuaStore;

/* ---- failures ---- */

/* -> nil, "FILE: what is wrong", code; `store` is the index of the store's userdata. */
static int push_failure(lua_State *L, int store, const StoreError *e)
{
    lua_getiuservalue(L, store, STORE_PATH);
    return api_fail_file(L, lua_tostring(L, -1), e->detail, store_code(e->status));
}

static int no_values(lua_State *L, int store, StoreStatus status, const StoreError *e)
{
    if (status != STORE_OK)
        return push_failure(L, store, e);
    lua_pushboolean(L, 1);
    return 1;
}

static Store *to_store(lua_State *L)
{
    return api_check_box(L, STORE, "store");
}

/* ---- scripts and transactions ---- */

/* self, sql -> true | nil, message, code */
static int store_l_script(lua_State *L)
{
    StoreError e;
    size_t size;
    const char *sql = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, strlen(sql) == size, 2, "must not contain a NUL");
    return no_values(L, 1, store_script(to_store(L), sql, &e), &e);
}

static int store_l_begin(lua_State *L)
{
    Store *s = to_store(L);
    StoreError e;
    luaL_argcheck(L, !s->in_transaction, 1, "a transaction is already open");
    return no_values(L, 1, store_begin(s, &e), &e);
}

static int store_l_commit(lua_State *L)
{
    Store *s = to_store(L);
    StoreError e;
    luaL_argcheck(L, s->in_transaction, 1, "no transaction is open");
    return no_values(L, 1, store_commit(s, &e), &e);
}

/* Does nothing without a transaction: a failed commit has rolled back. */
static int store_l_rollback(lua_State *L)
{
    StoreError e;
    return no_values(L, 1, store_rollback(to_store(L), &e), &e);
}

/* ---- statements, their parameters, and the rows that they return ---- */

/* The iterator of rows() and columns(). Its owner and user value is the store. */
typedef struct Rows {
    Box box;
    LuaStore *store;
    sqlite3_stmt *statement;
    bool by_name;
} Rows;

/* For iterators, where nil would mean the end of the rows. */
static int raise(lua_State *L, int store, const StoreError *e)
{
    push_failure(L, store, e);
    lua_pop(L, 1);
    return lua_error(L);
}

/* ---- values ---- */

enum { SQL = 2, VALUES }; /* their arguments */

/* `keep` says whether SQLite copies strings; if not, they must stay on the stack. */
static int bind_value(lua_State *L, int index, sqlite3_stmt *statement, int at,
                      sqlite3_destructor_type keep)
{
    size_t size;
    const char *bytes;
    switch (lua_type(L, index)) {
    case LUA_TNIL: return sqlite3_bind_null(statement, at);
    case LUA_TBOOLEAN: return sqlite3_bind_int64(statement, at, lua_toboolean(L, index));
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? sqlite3_bind_int64(statement, at, lua_tointeger(L, index))
                                       : sqlite3_bind_double(statement, at, lua_tonumber(L, index));
    default:
        bytes = lua_tolstring(L, index, &size);
        return json_is_utf8(bytes, size) ? sqlite3_bind_text(statement, at, bytes, (int)size, keep)
                                         : sqlite3_bind_blob(statement, at, bytes, (int)size, keep);
    }
}

/* A statement with its values bound, which end at `last`. NULL: an error. Mistakes in the call
 * raise. No Lua value is made. */
static sqlite3_stmt *acquire(lua_State *L, int last, sqlite3_destructor_type keep, StoreError *e)
{
    size_t size;
    sqlite3_stmt *statement;
    const char *sql = luaL_checklstring(L, SQL, &size);
    Store *s = to_store(L);
    lua_Unsigned limit = (lua_Unsigned)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, -1);
    for (int i = VALUES; i <= last; i++) {
        int type = lua_type(L, i);
        luaL_argexpected(L, type <= LUA_TSTRING && type != LUA_TLIGHTUSERDATA, i,
                         "nil, boolean, number or string");
        luaL_argcheck(L, type != LUA_TNUMBER || !isnan(lua_tonumber(L, i)), i,
                      "SQLite cannot store NaN");
        luaL_argcheck(L, type != LUA_TSTRING || lua_rawlen(L, i) <= limit, i,
                      "longer than SQLite's limit");
    }
    StoreStatus status = store_acquire(s, sql, size, &statement, e);
    if (status == STORE_SQL)
        luaL_error(L, "store: %s in: %s", e->detail, sql);
    if (status != STORE_OK)
        return NULL;
    luaL_argcheck(L, statement != NULL, SQL, "no statement");
    int wanted = sqlite3_bind_parameter_count(statement), got = last - SQL;
    if (wanted != got) {
        store_release(s, statement);
        luaL_error(L, "store: the statement takes %d values (got %d): %s", wanted, got, sql);
    }
    int rc = SQLITE_OK;
    for (int i = 1; rc == SQLITE_OK && i <= got; i++)
        rc = bind_value(L, SQL + i, statement, i, keep);
    if (rc == SQLITE_OK)
        return statement;
    store_fail_sqlite(e, s->db, rc);
    store_release(s, statement);
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
    StoreError e;
    int64_t changes;
    sqlite3_stmt *statement = acquire(L, lua_gettop(L), SQLITE_STATIC, &e);
    if (statement == NULL)
        return push_failure(L, 1, &e);
    Store *s = to_store(L);
    StoreStatus status = store_run(s, statement, &changes, &e);
    store_release(s, statement);
    if (status != STORE_OK)
        return push_failure(L, 1, &e);
    lua_pushinteger(L, changes);
    return 1;
}

/* ---- iterators ---- */

static void close_rows(void *held)
{
    const Rows *r = held;
    if (r->store->box.held != NULL)
        store_release(&r->store->store, r->statement);
}

/* self, sql, values... -> Rows, which owns the statement, below them */
static Rows *rows_new(lua_State *L, bool by_name)
{
    StoreError e;
    int last = lua_gettop(L);
    to_store(L);
    Rows *r = api_new_box(L, STORE_ROWS, sizeof *r, close_rows);
    r->store = lua_touserdata(L, 1);
    r->box.owner = &r->store->box;
    r->by_name = by_name;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    r->statement = acquire(L, last, SQLITE_TRANSIENT, &e);
    if (r->statement == NULL)
        raise(L, 1, &e);
    r->box.held = r;
    lua_insert(L, 1);
    return r;
}

/* Rows -> the values of the next row, or a table of them; nothing after the last */
static int push_next_row(lua_State *L)
{
    Rows *r = api_held(L);
    StoreError e;
    bool row;
    StoreStatus status = store_step(&r->store->store, r->statement, &row, &e);
    r->box.closing |= !row;
    if (status != STORE_OK) {
        lua_getiuservalue(L, 1, 1);
        raise(L, lua_gettop(L), &e);
    }
    if (!row)
        return 0;
    int count = sqlite3_column_count(r->statement);
    luaL_checkstack(L, count + LUA_MINSTACK, "too many columns");
    if (r->by_name)
        lua_createtable(L, 0, count);
    for (int i = 0; i < count; i++) {
        if (r->by_name)
            lua_pushstring(L, sqlite3_column_name(r->statement, i));
        push_column(L, r->statement, i);
        if (r->by_name)
            lua_rawset(L, -3);
    }
    return r->by_name ? 1 : count;
}

static int rows_l_next(lua_State *L)
{
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(1));
    const Rows *r = luaL_checkudata(L, 1, STORE_ROWS);
    if (r->box.held == NULL)
        return 0;
    if (api_box_problem(&r->box) != NULL || r->store->store.db == NULL)
        return luaL_error(L, "the store was closed between two rows");
    return api_use_box(L, 1, push_next_row);
}

/* -> iterator, nil, nil, Rows, which a generic for closes however it ends */
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
    rows_new(L, false);
    return push_iterator(L);
}

static int store_l_columns(lua_State *L)
{
    rows_new(L, true);
    return push_iterator(L);
}

/* self, sql, values... -> values of the first row */
static int store_l_row(lua_State *L)
{
    rows_new(L, false)->box.closing = true;
    return api_use_box(L, 1, push_next_row);
}

/* ---- opening and closing ---- */

static void close_store(void *store)
{
    store_close(store, NULL);
}

/* self -> true | nil, message, code */
static int store_l_close(lua_State *L)
{
    StoreError e;
    Store *held = api_empty_box(luaL_checkudata(L, 1, STORE));
    return no_values(L, 1, held != NULL ? store_close(held, &e) : STORE_OK, &e);
}

static int read_choice(lua_State *L, int arg, const char *name, const char *const *choices)
{
    lua_getfield(L, arg, name);
    int i = luaL_checkoption(L, -1, choices[0], choices);
    lua_pop(L, 1);
    return i;
}

static StoreOptions read_options(lua_State *L, int arg)
{
    static const char *const modes[] = {"read", "write", "create", NULL}; /* StoreMode */
    static const char *const syncs[] = {"normal", "full", NULL};          /* full_sync */
    StoreOptions o = {.lock = true, .application_id = -1, .version = -1, .kind = "run log"};
    if (lua_isnoneornil(L, arg))
        return o;
    luaL_checktype(L, arg, LUA_TTABLE);
    o.mode = read_choice(L, arg, "mode", modes);
    o.full_sync = read_choice(L, arg, "sync", syncs);
    api_read_boolean(L, arg, "lock", &o.lock);
    api_read_boolean(L, arg, "check", &o.check);
    api_read_integer(L, arg, "application_id", 0, INT32_MAX, &o.application_id);
    api_read_integer(L, arg, "version", 0, INT32_MAX, &o.version);
    api_read_string(L, arg, "kind", &o.kind);
    api_read_string(L, arg, "schema", &o.schema);
    return o;
}

/* path, opts (table or nil) -> Store | nil, message, code */
static int l_open(lua_State *L)
{
    size_t size;
    StoreError e;
    const char *path = luaL_checklstring(L, 1, &size);
    luaL_argcheck(L, size > 0 && strlen(path) == size, 1, "empty, or with a NUL");
    lua_settop(L, 2);
    LuaStore *s = api_new_box(L, STORE, sizeof *s, close_store);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, STORE_PATH);
    int box = lua_gettop(L);
    StoreOptions o = read_options(L, 2);
    if (o.mode != STORE_READ)
        offline_refuse(L, "store.open for writing");
    if (store_open(&s->store, path, &o, &e) != STORE_OK)
        return push_failure(L, box, &e);
    s->box.held = &s->store;
    lua_settop(L, box);
    return 1;
}

/* ---- other functions for logs ---- */

/* path -> whether it has a writer | nil, message, code */
static int l_in_use(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    StoreError e;
    bool used;
    if (store_in_use(path, &used, &e) != STORE_OK)
        return api_fail_file(L, path, e.detail, store_code(e.status));
    lua_pushboolean(L, used);
    return 1;
}

/* text -> 64 hex digits */
static int l_sha256(lua_State *L)
{
    static const char digits[] = "0123456789abcdef";
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
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
    const char *path = luaL_checkstring(L, 1);
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) {
        StoreError e;
        store_fail_errno(&e, "cannot stat", errno);
        return api_fail_file(L, path, e.detail, store_code(e.status));
    }
    lua_pushinteger(L, (lua_Integer)(disk.f_bavail * disk.f_frsize));
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg store_methods[] = {
    {"execute", store_l_execute}, {"script", store_l_script},
    {"rows", store_l_rows},       {"columns", store_l_columns},
    {"row", store_l_row},         {"begin", store_l_begin},
    {"commit", store_l_commit},   {"rollback", store_l_rollback},
    {"close", store_l_close},     {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", l_open},     {"sha256", l_sha256}, {"free_bytes", l_free_bytes},
    {"in_use", l_in_use}, {NULL, NULL},
};

PONDER_MODULE(luaopen_ponder_core_store)
{
    api_new_class(L, STORE, store_methods);
    api_new_class(L, STORE_ROWS, no_methods);
    luaL_newlib(L, functions);
    api_set_string(L, "sqlite_version", sqlite3_libversion());
    return 1;
}
