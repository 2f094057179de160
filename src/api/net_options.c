/*
 * net_options.c -- see net_options.h.
 */
#include "api/net_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"

typedef enum FieldKind {
    FIELD_INTEGER,
    FIELD_BOOLEAN,
    FIELD_STRING,
    FIELD_BODY,
    FIELD_STREAM,
    FIELD_HEADERS
} FieldKind;

typedef struct Field {
    const char *name;
    FieldKind kind;
    size_t offset; /* in NetOptions */
    lua_Integer min, max;
} Field;

#define LIMIT(name, min, max)                                                                      \
    {                                                                                              \
#name, FIELD_INTEGER, offsetof(NetOptions, request.limits.name), min, max                  \
    }
#define PUMP_LIMIT(name, max)                                                                      \
    {                                                                                              \
#name, FIELD_INTEGER, offsetof(NetOptions, pump.name), 1, max                              \
    }
#define STRING(name, place)                                                                        \
    {                                                                                              \
        name, FIELD_STRING, offsetof(NetOptions, place), 0, 0                                      \
    }

#define MAX_MS    ((lua_Integer)INT32_MAX) /* 24 days; libcurl takes a long */
#define MAX_BYTES ((lua_Integer)1 << 40)
#define MAX_CALLS 65536

#define CALL_FIELDS                                                                                \
    LIMIT(timeout_ms, 1, MAX_MS), LIMIT(connect_timeout_ms, 1, MAX_MS),                            \
        LIMIT(idle_timeout_ms, 1, MAX_MS), LIMIT(max_body_bytes, 1, MAX_BYTES),                    \
        LIMIT(max_line_bytes, 1, MAX_BYTES), LIMIT(max_event_bytes, 1, MAX_BYTES),                 \
        LIMIT(max_header_bytes, 1, MAX_BYTES), LIMIT(max_redirects, 0, 100),                       \
        {"cross_host_redirects", FIELD_BOOLEAN,                                                    \
         offsetof(NetOptions, request.limits.cross_host_redirects), 0, 0},                         \
    {                                                                                              \
        "public_only", FIELD_BOOLEAN, offsetof(NetOptions, request.limits.public_only), 0, 0       \
    }

static const Field open_fields[] = {
    PUMP_LIMIT(max_in_flight_per_host, MAX_CALLS),
    PUMP_LIMIT(max_total, MAX_CALLS),
    PUMP_LIMIT(max_queued, MAX_BYTES),
    STRING("user_agent", pump.user_agent),
    STRING("ca_file", pump.ca_file),
    STRING("proxy", pump.proxy),
    CALL_FIELDS,
    {NULL, FIELD_STRING, 0, 0, 0},
};

static const Field submit_fields[] = {
    STRING("url", request.url),
    STRING("method", request.method),
    {"headers", FIELD_HEADERS, 0, 0, 0},
    {"body", FIELD_BODY, 0, 0, 0},
    {"stream", FIELD_STREAM, offsetof(NetOptions, request.stream), 0, 0},
    STRING("ca_file", request.ca_file),
    STRING("proxy", request.proxy),
    CALL_FIELDS,
    {NULL, FIELD_STRING, 0, 0, 0},
};

static const Field reader_fields[] = {
    LIMIT(max_line_bytes, 1, MAX_BYTES),
    LIMIT(max_event_bytes, 1, MAX_BYTES),
    {NULL, FIELD_STRING, 0, 0, 0},
};

/* --- unknown names ------------------------------------------------------------------------ */

/* With the hint of ponder.options, where that can be loaded. */
static int unknown_option(lua_State *L, const char *where, const char *name, const Field *fields)
{
    const char *hint = "";
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ponder.options");
    if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
        lua_getfield(L, -1, "hint");
        lua_pushstring(L, name);
        lua_newtable(L); /* options, hint, name, names */
        for (int i = 0; fields[i].name != NULL; i++) {
            lua_pushstring(L, fields[i].name);
            lua_rawseti(L, -2, i + 1);
        }
        if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_isstring(L, -1))
            hint = lua_tostring(L, -1);
    }
    return luaL_error(L, "%s: unknown option \"%s\"%s", where, name, hint);
}

/* --- values ------------------------------------------------------------------------------- */

/* What came, for an error: numbers and short strings as they are, else the type. */
static const char *shown(lua_State *L, int index)
{
    int type = lua_type(L, index);
    if (type == LUA_TNUMBER || type == LUA_TBOOLEAN)
        return luaL_tolstring(L, index, NULL);
    return lua_typename(L, type);
}

static int64_t read_integer(lua_State *L, int index, const char *where, const Field *f)
{
    int ok = 0;
    lua_Integer value = lua_type(L, index) == LUA_TNUMBER ? lua_tointegerx(L, index, &ok) : 0;
    if (!ok || value < f->min || value > f->max)
        luaL_error(L, "%s: opts.%s must be an integer from %I to %I (got %s)", where, f->name,
                   (LUAI_UACINT)f->min, (LUAI_UACINT)f->max, shown(L, index));
    return value;
}

static bool read_boolean(lua_State *L, int index, const char *where, const char *name)
{
    if (lua_type(L, index) != LUA_TBOOLEAN)
        luaL_error(L, "%s: opts.%s must be a boolean (got %s)", where, name, shown(L, index));
    return lua_toboolean(L, index);
}

static const char *read_string(lua_State *L, int index, const char *where, const char *name,
                               size_t *size)
{
    if (lua_type(L, index) != LUA_TSTRING)
        luaL_error(L, "%s: opts.%s must be a string (got %s)", where, name, shown(L, index));
    const char *s = lua_tolstring(L, index, size);
    return s;
}

/* A string that C sees whole. */
static const char *read_text(lua_State *L, int index, const char *where, const char *name)
{
    size_t n;
    const char *s = read_string(L, index, where, name, &n);
    if (memchr(s, '\0', n) != NULL || memchr(s, '\r', n) != NULL || memchr(s, '\n', n) != NULL)
        luaL_error(L, "%s: opts.%s must hold no line break and no NUL", where, name);
    return s;
}

StreamKind net_stream_kind(lua_State *L, int index, const char *where, const char *name)
{
    const char *s = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    if (strcmp(s, "sse") == 0)
        return STREAM_SSE;
    if (strcmp(s, "ndjson") != 0)
        luaL_error(L, "%s: %s must be \"sse\" or \"ndjson\" (got %s)", where, name,
                   *s != '\0' ? s : luaL_typename(L, index));
    return STREAM_JSON_LINES;
}

/* --- headers ------------------------------------------------------------------------------ */

/* The characters of an RFC 9110 token. */
static bool is_token(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return n > 0;
}

static bool is_header_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == '\r' || s[i] == '\n' || s[i] == '\0')
            return false;
    return true;
}

/* Appends "name: value" NUL. libcurl reads "name;" as a header without value. */
static bool put_header(Buffer *b, const Alloc *a, const char *name, size_t name_size,
                       const char *value, size_t size)
{
    return buffer_append(b, a, name, name_size) &&
           buffer_append(b, a, size > 0 ? ": " : ";", size > 0 ? 2 : 1) &&
           buffer_append(b, a, value, size) && buffer_append(b, a, "", 1);
}

enum { NUMBER_SIZE = 48 };

/* The string or number on top of the stack. Converting in place could collect garbage, and a
 * finalizer could pull the table's strings from under us. */
static const char *header_text(lua_State *L, char digits[NUMBER_SIZE], size_t *size)
{
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tolstring(L, -1, size);
    int n = lua_isinteger(L, -1)
                ? snprintf(digits, NUMBER_SIZE, LUA_INTEGER_FMT, lua_tointeger(L, -1))
                : snprintf(digits, NUMBER_SIZE, "%.14g", lua_tonumber(L, -1));
    *size = (size_t)n;
    return digits;
}

/* The table at `index`: names to strings or numbers. A value appears in no error: it may be a key.
 */
static bool read_headers(lua_State *L, int index, const char *where, Buffer *b, const Alloc *a)
{
    if (!lua_istable(L, index))
        luaL_error(L, "%s: opts.headers must be a table (got %s)", where, luaL_typename(L, index));
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        size_t name_size = 0, size;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &name_size) : NULL;
        if (name == NULL || !is_token(name, name_size))
            luaL_error(L, "%s: a name in opts.headers is not a header's name", where);
        if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER)
            luaL_error(L, "%s: opts.headers[\"%s\"] must be a string or a number (got %s)", where,
                       name, luaL_typename(L, -1));
        char digits[NUMBER_SIZE];
        const char *value = header_text(L, digits, &size);
        if (!is_header_value(value, size))
            luaL_error(L, "%s: opts.headers[\"%s\"] must hold no line break and no NUL", where,
                       name);
        if (!put_header(b, a, name, name_size, value, size))
            return false;
    }
    return true;
}

/* --- whole tables ------------------------------------------------------------------------- */

static const Field *find_field(const Field *fields, const char *name)
{
    for (; fields->name != NULL; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

/* The value on top of the stack is that of field `f`. False when memory is short. */
static bool read_field(lua_State *L, const char *where, const Field *f, NetOptions *o,
                       Buffer *headers, const Alloc *a)
{
    void *place = (char *)o + f->offset;
    int top = lua_gettop(L);
    switch (f->kind) {
    case FIELD_INTEGER: *(int64_t *)place = read_integer(L, top, where, f); break;
    case FIELD_BOOLEAN: *(bool *)place = read_boolean(L, top, where, f->name); break;
    case FIELD_STRING: *(const char **)place = read_text(L, top, where, f->name); break;
    case FIELD_BODY:
        o->request.body = read_string(L, top, where, f->name, &o->request.body_size);
        break;
    case FIELD_STREAM: *(StreamKind *)place = net_stream_kind(L, top, where, "opts.stream"); break;
    case FIELD_HEADERS: return read_headers(L, top, where, headers, a);
    }
    return true;
}

static bool read_options(lua_State *L, int arg, const char *where, const Field *fields,
                         NetOptions *o, Buffer *headers, const Alloc *a)
{
    if (!lua_istable(L, arg))
        luaL_error(L, "%s: opts must be a table (got %s)", where, luaL_typename(L, arg));
    for (lua_pushnil(L); lua_next(L, arg) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "%s: opts has a name that is not a string (%s)", where,
                       luaL_typename(L, -2));
        const char *name = lua_tostring(L, -2);
        const Field *f = find_field(fields, name);
        if (f == NULL)
            unknown_option(L, where, name, fields);
        else if (!read_field(L, where, f, o, headers, a))
            return false;
    }
    return true;
}

void net_open_options(lua_State *L, int arg, NetOptions *o)
{
    *o = (NetOptions){
        .pump = {.max_in_flight_per_host = 64,
                 .max_total = 256,
                 .max_queued = 100000,
                 .user_agent = "ponder/" PONDER_VERSION},
        .request = {.limits = net_default_limits},
    };
    if (!lua_isnoneornil(L, arg))
        read_options(L, arg, "net.open", open_fields, o, NULL, NULL);
}

void net_reader_options(lua_State *L, int arg, NetOptions *o)
{
    *o = (NetOptions){.request = {.limits = net_default_limits}};
    if (!lua_isnoneornil(L, arg))
        read_options(L, arg, "net.reader", reader_fields, o, NULL, NULL);
}

static bool is_method(const char *s)
{
    size_t n = strlen(s);
    return n <= 16 && is_token(s, n);
}

bool net_submit_options(lua_State *L, int arg, NetOptions *o, Buffer *headers, const Alloc *a)
{
    headers->size = 0;
    if (!read_options(L, arg, "net.submit", submit_fields, o, headers, a))
        return false;
    Request *r = &o->request;
    if (r->url == NULL)
        luaL_error(L, "net.submit: opts.url must be a string (got nil)");
    if (r->method != NULL && !is_method(r->method))
        luaL_error(L, "net.submit: opts.method is not the name of a method");
    r->headers = headers->data;
    r->headers_size = headers->size;
    return true;
}
