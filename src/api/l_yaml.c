/*
 * l_yaml.c -- ponder.core.yaml: YAML text to Lua values, by libyaml. Described in
 * lua/ponder/meta/yaml.lua.
 *
 * Plain null, true, false and decimal numbers are such, all else is text. An alias is the
 * value of its anchor itself, so that it takes no memory; but it counts as many values as that has,
 * since whoever walks through the result meets them again.
 */
#include <strings.h>
#include <yaml.h>

#include "api/api.h"

#define YAML "ponder.core.yaml"

enum { MAX_BYTES = 8 << 20, MAX_VALUES = 200000, MAX_DEPTH = 64 };
enum { BOX = 1, TEXT, ANCHORS, COUNTS, LINES }; /* places on the stack of decode */

typedef struct Yaml {
    Box box;
    yaml_parser_t parser;
    yaml_event_t event; /* the last one */
    lua_Integer values;
    int depth;
} Yaml;

static void close_yaml(void *yaml)
{
    Yaml *y = yaml;
    yaml_event_delete(&y->event);
    yaml_parser_delete(&y->parser);
}

/* Pushes what is wrong at the last event; always false. */
static bool fail(lua_State *L, const Yaml *y, const char *problem)
{
    lua_pushfstring(L, "line %I: %s", (LUAI_UACINT)y->event.start_mark.line + 1, problem);
    return false;
}

static bool next(lua_State *L, Yaml *y)
{
    yaml_event_delete(&y->event);
    if (yaml_parser_parse(&y->parser, &y->event))
        return true;
    const yaml_parser_t *p = &y->parser;
    if (p->error == YAML_READER_ERROR)
        lua_pushfstring(L, "byte %I: %s", (LUAI_UACINT)p->problem_offset + 1, p->problem);
    else
        lua_pushfstring(L, "line %I: %s", (LUAI_UACINT)p->problem_mark.line + 1,
                        p->problem != NULL ? p->problem : "not enough memory");
    return false;
}

static void push_plain(lua_State *L, const char *s, size_t n)
{
    bool is_true = strcasecmp(s, "true") == 0;
    if (n == 0 || strcmp(s, "~") == 0 || strcasecmp(s, "null") == 0)
        lua_pushlightuserdata(L, NULL); /* json.null */
    else if (is_true || strcasecmp(s, "false") == 0)
        lua_pushboolean(L, is_true);
    else if (strspn(s, "0123456789+-.eE") != n || lua_stringtonumber(L, s) != n + 1)
        lua_pushlstring(L, s, n);
}

/* Whether a tag is missing, or this one of YAML's own. */
static bool is_known(lua_State *L, Yaml *y, const yaml_char_t *tag, const char *own)
{
    return tag == NULL || strcmp((const char *)tag, own) == 0 ||
           fail(L, y, lua_pushfstring(L, "unknown tag %s", (const char *)tag));
}

static bool build(lua_State *L, Yaml *y);

static bool build_scalar(lua_State *L, Yaml *y)
{
    const char *text = (const char *)y->event.data.scalar.value;
    if (!is_known(L, y, y->event.data.scalar.tag, YAML_STR_TAG))
        return false;
    if (y->event.data.scalar.plain_implicit)
        push_plain(L, text, y->event.data.scalar.length);
    else
        lua_pushlstring(L, text, y->event.data.scalar.length);
    return true;
}

static bool build_alias(lua_State *L, Yaml *y)
{
    const char *name = (const char *)y->event.data.alias.anchor;
    if (lua_getfield(L, ANCHORS, name) == LUA_TNIL)
        return fail(
            L, y,
            lua_pushfstring(L, "undefined alias *%s (an anchor cannot contain itself)", name));
    lua_getfield(L, COUNTS, name);
    y->values += lua_tointeger(L, -1);
    lua_pop(L, 1);
    return y->values <= MAX_VALUES || fail(L, y, "too many values by aliases");
}

/* Gives the map the fields of the one on top that it lacks, and pops that. */
static bool merge(lua_State *L, Yaml *y, int map)
{
    if (lua_type(L, -1) != LUA_TTABLE || lua_rawlen(L, -1) > 0)
        return fail(L, y, "<< needs a map");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        if (lua_rawget(L, map) == LUA_TNIL) {
            lua_pushvalue(L, -3);
            lua_pushvalue(L, -3);
            lua_rawset(L, map);
            y->values++;
        }
        lua_pop(L, 1);
    }
    return y->values <= MAX_VALUES || fail(L, y, "too many values by <<");
}

static bool build_map(lua_State *L, Yaml *y, int map)
{
    lua_pushnil(L); /* above the map and its lines: what is under << */
    while (next(L, y) && y->event.type == YAML_SCALAR_EVENT) {
        const char *key = (const char *)y->event.data.scalar.value;
        bool is_merge = y->event.data.scalar.plain_implicit && strcmp(key, "<<") == 0;
        lua_pushlstring(L, key, y->event.data.scalar.length);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, map + 1) != LUA_TNIL)
            return fail(L, y, lua_pushfstring(L, "duplicate key %s", key));
        lua_settop(L, map + 3);
        lua_pushvalue(L, -1);
        lua_pushinteger(L, (lua_Integer)y->event.start_mark.line + 1);
        lua_rawset(L, map + 1);
        if (!next(L, y) || !build(L, y))
            return false;
        if (is_merge)
            lua_replace(L, map + 2);
        else
            lua_rawset(L, map);
        lua_settop(L, map + 2);
    }
    if (y->event.type != YAML_MAPPING_END_EVENT) /* next() has failed, or it is a list or a map */
        return y->event.type != YAML_NO_EVENT && fail(L, y, "a key must be a text");
    return lua_isnil(L, -1) || merge(L, y, map);
}

static bool build_list(lua_State *L, Yaml *y, int list)
{
    for (lua_Integer i = 1; next(L, y); i++) {
        if (y->event.type == YAML_SEQUENCE_END_EVENT)
            return true;
        if (!build(L, y))
            return false;
        lua_rawseti(L, list, i);
    }
    return false;
}

/* Pushes the value that the last event begins; else false, and what is wrong is on top. */
static bool build(lua_State *L, Yaml *y)
{
    const yaml_event_t *e = &y->event;
    bool is_map = e->type == YAML_MAPPING_START_EVENT, is_scalar = e->type == YAML_SCALAR_EVENT;
    lua_Integer before = y->values++;
    luaL_checkstack(L, LUA_MINSTACK, "yaml");
    if (y->values > MAX_VALUES || y->depth == MAX_DEPTH)
        return fail(L, y, y->depth == MAX_DEPTH ? "nested too deeply" : "too many values");
    if (e->type == YAML_ALIAS_EVENT)
        return build_alias(L, y);
    lua_pushstring(L, (const char *)(is_scalar ? e->data.scalar.anchor
                                     : is_map  ? e->data.mapping_start.anchor
                                               : e->data.sequence_start.anchor)); /* or nil */
    int at = lua_gettop(L) + 1;
    if (is_scalar) {
        if (!build_scalar(L, y))
            return false;
    } else {
        if (!is_known(L, y, is_map ? e->data.mapping_start.tag : e->data.sequence_start.tag,
                      is_map ? YAML_MAP_TAG : YAML_SEQ_TAG))
            return false;
        lua_newtable(L);
        luaL_newmetatable(L, is_map ? "ponder.json.object" : "ponder.json.array");
        lua_setmetatable(L, at);
        lua_pushvalue(L, at);
        lua_newtable(L);
        lua_pushinteger(L, (lua_Integer)e->start_mark.line + 1);
        lua_rawseti(L, -2, 0);
        lua_rawset(L, LINES);
        lua_pushvalue(L, at);
        lua_rawget(L, LINES);
        y->depth++;
        if (!(is_map ? build_map : build_list)(L, y, at))
            return false;
        y->depth--;
    }
    lua_settop(L, at);
    if (!lua_isnil(L, at - 1)) {
        lua_pushinteger(L, y->values - before);
        lua_setfield(L, COUNTS, lua_tostring(L, at - 1));
        lua_pushvalue(L, at);
        lua_setfield(L, ANCHORS, lua_tostring(L, at - 1));
    }
    lua_remove(L, at - 1);
    return true;
}

/* box, text -> value, lines | nil, message */
static int decode(lua_State *L)
{
    Yaml *y = api_held(L);
    for (int i = ANCHORS; i <= LINES; i++)
        lua_newtable(L);
    if (!next(L, y) || !next(L, y))
        return api_fail(L, lua_tostring(L, -1), NULL);
    if (y->event.type == YAML_STREAM_END_EVENT)
        lua_pushlightuserdata(L, NULL);
    else if (!next(L, y) || !build(L, y) || !next(L, y) || !next(L, y))
        return api_fail(L, lua_tostring(L, -1), NULL);
    if (y->event.type != YAML_STREAM_END_EVENT && fail(L, y, "a second document begins here") == 0)
        return api_fail(L, lua_tostring(L, -1), NULL);
    lua_pushvalue(L, LINES);
    return 2;
}

static int yaml_l_decode(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    if (size > MAX_BYTES)
        return api_fail(L, lua_pushfstring(L, "longer than %d bytes", MAX_BYTES), NULL);
    lua_settop(L, 1);
    Yaml *y = api_new_box(L, YAML, sizeof *y, close_yaml);
    lua_insert(L, BOX);
    if (!yaml_parser_initialize(&y->parser))
        return luaL_error(L, "not enough memory");
    y->box.held = y;
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, size);
    int n = api_use_box(L, BOX, decode);
    close_yaml(api_empty_box(&y->box));
    return n;
}

PONDER_MODULE(luaopen_ponder_core_yaml)
{
    static const luaL_Reg functions[] = {{"decode", yaml_l_decode}, {NULL, NULL}};
    api_new_class(L, YAML, no_methods);
    luaL_newlib(L, functions);
    return 1;
}
