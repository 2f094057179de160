/*
 * l_store_rows.c -- statements, their parameters, and the rows that they return.
 */
#include <math.h>

#include "api/l_store.h"
#include "core/json.h"

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
    store_push_failure(L, store, e);
    lua_pop(L, 1);
    return lua_error(L);
}

/* ---- values ---- */

/* Raises for values that SQLite cannot store. They are on the stack from `first` on. */
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
                luaL_error(L, "store.%s: value %d is NaN, which SQLite cannot store", where, n);
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

/* A statement with its values bound: on the stack are the store, the SQL and the values. NULL: an
 * error. Mistakes in the call raise. After store_hide_values no Lua value is made. */
static sqlite3_stmt *acquire(lua_State *L, int store, const char *where,
                             sqlite3_destructor_type keep, StoreError *e)
{
    size_t size;
    int first = store + 2;
    const char *sql = store_text(L, store + 1, where, "sql", &size);
    sqlite3_stmt *statement;
    store_hide_values(L, store, first);
    Store *s = store_check(L, store, where);
    check_values(L, s, where, first);
    StoreStatus status = store_acquire(s, sql, size, &statement, e);
    if (status == STORE_SQL)
        luaL_error(L, "store.%s: %s in: %s", where, e->detail, sql);
    if (status != STORE_OK)
        return NULL;
    if (statement == NULL)
        luaL_error(L, "store.%s: sql has no statement", where);
    int wanted = sqlite3_bind_parameter_count(statement), got = lua_gettop(L) - first + 1;
    if (wanted != got) {
        store_release(s, statement);
        luaL_error(L, "store.%s: the statement takes %d values (got %d): %s", where, wanted, got,
                   sql);
    }
    int rc = SQLITE_OK;
    for (int i = 1; rc == SQLITE_OK && i <= got; i++)
        rc = bind_value(L, first + i - 1, statement, i, keep);
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
int store_l_execute(lua_State *L)
{
    Store *s = store_self(L, "execute");
    StoreError e;
    sqlite3_stmt *statement = acquire(L, 1, "execute", SQLITE_STATIC, &e);
    if (statement == NULL)
        return store_push_failure(L, 1, &e);
    int64_t changes;
    StoreStatus status = store_run(s, statement, &changes, &e);
    store_release(s, statement);
    if (status != STORE_OK)
        return store_push_failure(L, 1, &e);
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

/* self, sql, values... -> inserts Rows below them, which owns the statement */
static Rows *rows_new(lua_State *L, const char *where, bool by_name)
{
    StoreError e;
    store_self(L, where);
    Rows *r = api_new_box(L, STORE_ROWS, sizeof *r, close_rows);
    r->store = lua_touserdata(L, 1);
    r->box.owner = &r->store->box;
    r->by_name = by_name;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_insert(L, 1);
    r->statement = acquire(L, 2, where, SQLITE_TRANSIENT, &e);
    if (r->statement == NULL)
        raise(L, 2, &e);
    r->box.held = r;
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
        return luaL_error(L, "store.rows: the store was closed between two rows");
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

int store_l_rows(lua_State *L)
{
    rows_new(L, "rows", false);
    return push_iterator(L);
}

int store_l_columns(lua_State *L)
{
    rows_new(L, "columns", true);
    return push_iterator(L);
}

/* self, sql, values... -> values of the first row */
int store_l_row(lua_State *L)
{
    rows_new(L, "row", false)->box.closing = true;
    return api_use_box(L, 1, push_next_row);
}
