/* l_yaml.c -- ponder.core.yaml: the events of a YAML text, by libyaml. See
 * lua/ponder/meta/yaml.lua. */
#include <yaml.h>

#include "api/api.h"

#define YAML "ponder.core.yaml"

enum { MAX_BYTES = 8 << 20, MAX_EVENTS = 500000, MAX_DEPTH = 64 };

typedef struct Yaml {
    Box box;
    yaml_parser_t parser;
    yaml_event_t event; /* the last one */
} Yaml;

static void close_yaml(void *yaml)
{
    Yaml *y = yaml;
    yaml_event_delete(&y->event);
    yaml_parser_delete(&y->parser);
}

static int fail(lua_State *L, size_t line, const char *problem)
{
    return api_fail(L, lua_pushfstring(L, "line %I: %s", (LUAI_UACINT)line + 1, problem), NULL);
}

/* Appends a text, or false, to the list on top. */
static void add(lua_State *L, lua_Integer *n, const yaml_char_t *text)
{
    if (text != NULL)
        lua_pushstring(L, (const char *)text);
    else
        lua_pushboolean(L, 0);
    lua_rawseti(L, -2, ++*n);
}

/* Appends kind, anchor, tag, text and line. */
static void add_event(lua_State *L, const yaml_event_t *e, lua_Integer *n)
{
    static const char *const kinds[] = {[YAML_DOCUMENT_START_EVENT] = "document",
                                        [YAML_ALIAS_EVENT] = "alias",
                                        [YAML_SCALAR_EVENT] = "text",
                                        [YAML_SEQUENCE_START_EVENT] = "list",
                                        [YAML_SEQUENCE_END_EVENT] = "end",
                                        [YAML_MAPPING_START_EVENT] = "map",
                                        [YAML_MAPPING_END_EVENT] = "end"};
    bool is_text = e->type == YAML_SCALAR_EVENT, is_map = e->type == YAML_MAPPING_START_EVENT;
    bool is_list = e->type == YAML_SEQUENCE_START_EVENT;
    bool is_plain = is_text && e->data.scalar.plain_implicit;
    add(L, n, (const yaml_char_t *)(is_plain ? "plain" : kinds[e->type]));
    add(L, n,
        e->type == YAML_ALIAS_EVENT ? e->data.alias.anchor
        : is_text                   ? e->data.scalar.anchor
        : is_map                    ? e->data.mapping_start.anchor
        : is_list                   ? e->data.sequence_start.anchor
                                    : NULL);
    add(L, n,
        is_text   ? e->data.scalar.tag
        : is_map  ? e->data.mapping_start.tag
        : is_list ? e->data.sequence_start.tag
                  : NULL);
    lua_pushlstring(L, is_text ? (const char *)e->data.scalar.value : "",
                    is_text ? e->data.scalar.length : 0);
    lua_rawseti(L, -2, ++*n);
    lua_pushinteger(L, (lua_Integer)e->start_mark.line + 1);
    lua_rawseti(L, -2, ++*n);
}

/* box, text -> list | nil, message */
static int read_events(lua_State *L)
{
    Yaml *y = api_held(L);
    const yaml_parser_t *p = &y->parser;
    const yaml_event_t *e = &y->event;
    int depth = 0;
    lua_newtable(L);
    for (lua_Integer n = 0; e->type != YAML_STREAM_END_EVENT;) {
        yaml_event_delete(&y->event);
        bool ok = yaml_parser_parse(&y->parser, &y->event);
        if (!ok && p->error == YAML_READER_ERROR)
            return api_fail(
                L,
                lua_pushfstring(L, "byte %I: %s", (LUAI_UACINT)p->problem_offset + 1, p->problem),
                NULL);
        if (!ok)
            return fail(L, p->problem_mark.line,
                        p->problem != NULL ? p->problem : "not enough memory");
        depth += e->type == YAML_SEQUENCE_START_EVENT || e->type == YAML_MAPPING_START_EVENT;
        depth -= e->type == YAML_SEQUENCE_END_EVENT || e->type == YAML_MAPPING_END_EVENT;
        if (depth > MAX_DEPTH || n > 5 * MAX_EVENTS)
            return fail(L, e->start_mark.line,
                        depth > MAX_DEPTH ? "nested too deeply" : "too many values");
        if (e->type >= YAML_DOCUMENT_START_EVENT && e->type != YAML_DOCUMENT_END_EVENT)
            add_event(L, e, &n);
    }
    return 1;
}

static int yaml_l_events(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    if (size > MAX_BYTES)
        return api_fail(L, lua_pushfstring(L, "longer than %d bytes", MAX_BYTES), NULL);
    lua_settop(L, 1);
    Yaml *y = api_new_box(L, YAML, sizeof *y, close_yaml);
    lua_insert(L, 1);
    if (!yaml_parser_initialize(&y->parser))
        return luaL_error(L, "not enough memory");
    y->box.held = y;
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, size);
    int n = api_use_box(L, 1, read_events);
    close_yaml(api_empty_box(&y->box));
    return n;
}

PONDER_MODULE(luaopen_ponder_core_yaml)
{
    static const luaL_Reg functions[] = {{"events", yaml_l_events}, {NULL, NULL}};
    api_new_class(L, YAML, no_methods);
    luaL_newlib(L, functions);
    return 1;
}
