/*
 * json_encode.c -- json.encode: Lua values become JSON text.
 *
 * Open containers form a stack of Frames; there is no recursion, even if reading a lazy list runs
 * Lua code that encodes, too.
 *
 * The Lua stack of one call: the value, nil, and three userdata that own the text, the frames and
 * the keys once they are large. Above them, for each frame:
 *
 *      slot       the container
 *      slot + 1   an object's first key, and so on
 *
 * This keeps the keys alive, whatever Lua code does to the table meanwhile.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/l_json.h"
#include "core/json.h"

enum {
    TEXT = 3,
    FRAMES,
    KEYS,
    SMALL_TEXT = 1024,
    SMALL_FRAMES = 16,
    SMALL_KEYS = 32,
};

typedef enum FrameKind {
    LIST,     /* a plain table, read raw */
    SEQUENCE, /* anything read through its __len and __index */
    OBJECT
} FrameKind;

typedef struct Frame {
    FrameKind kind;
    bool has_holes; /* nil items are allowed and become null */
    int slot;
    lua_Integer at; /* the item being written, from 1 */
    lua_Integer count;
    size_t first_key; /* in Encoder.keys */
    const void *identity;
} Frame;

typedef struct Key {
    const char *text;
    size_t length;
    int slot;
} Key;

typedef struct Encoder {
    lua_State *L;
    int indent; /* spaces a level; 0 writes everything on one line */
    size_t max_depth;

    char *text;
    size_t used, room;
    Frame *frames;
    size_t depth, frame_capacity;
    Key *keys;
    size_t key_count, key_capacity;

    char small_text[SMALL_TEXT];
    Frame small_frames[SMALL_FRAMES];
    Key small_keys[SMALL_KEYS];
} Encoder;

/* Copies `used` bytes of `old` to a new userdata of `size` bytes in the stack slot `slot`. */
static void *grow(lua_State *L, int slot, const void *old, size_t used, size_t size)
{
    void *memory = lua_newuserdatauv(L, size, 0);
    memcpy(memory, old, used);
    lua_replace(L, slot);
    return memory;
}

/* ---- the text so far ---- */

static char *reserve(Encoder *e, size_t size)
{
    if (e->room - e->used < size) {
        size_t room = 2 * e->room > e->used + size ? 2 * e->room : e->used + size;
        e->text = grow(e->L, TEXT, e->text, e->used, room);
        e->room = room;
    }
    return e->text + e->used;
}

static void put(Encoder *e, const char *text, size_t length)
{
    memcpy(reserve(e, length), text, length);
    e->used += length;
}

static void put_char(Encoder *e, char c)
{
    *reserve(e, 1) = c;
    e->used++;
}

static void put_string(Encoder *e, const char *text, size_t length)
{
    const char *end = text + length;
    put_char(e, '"');
    while (text < end) {
        /* Enough for text without escapes; otherwise the loop runs again. */
        char *out = reserve(e, (size_t)(end - text) + 8);
        e->used += json_escape(out, e->room - e->used, &text, end);
    }
    put_char(e, '"');
}

static void put_line(Encoder *e, size_t depth)
{
    if (e->indent > 0) {
        size_t spaces = depth * (size_t)e->indent;
        char *out = reserve(e, spaces + 1);
        out[0] = '\n';
        memset(out + 1, ' ', spaces);
        e->used += spaces + 1;
    }
}

/* ---- errors ---- */

/* Has ponder.json raise an error about the value or key on top of the stack, inside of
 * the open containers. `problem` is one of its REFUSALS. */
static int refuse(Encoder *e, const char *problem)
{
    lua_State *L = e->L;
    int subject = lua_gettop(L);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    lua_getfield(L, JSON_MODULE, "refuse");
    lua_pushstring(L, problem);
    lua_pushvalue(L, subject);
    lua_createtable(L, (int)e->depth, 0);
    for (size_t i = 0; i < e->depth; i++) {
        const Frame *f = &e->frames[i];
        if (f->kind == OBJECT)
            lua_pushvalue(L, e->keys[f->first_key + (size_t)f->at - 1].slot);
        else
            lua_pushinteger(L, f->at);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, (lua_Integer)e->max_depth);
    lua_call(L, 4, 0);
    return luaL_error(L, "json.encode: this value cannot be JSON"); /* not reached */
}

/* ---- the keys of an object ---- */

/* Adds the string on top of the stack, which stays there, to the keys. */
static void add_key(Encoder *e)
{
    lua_State *L = e->L;
    size_t length;
    luaL_checkstack(L, LUA_MINSTACK, "json.encode: too many keys");
    if (e->key_count == e->key_capacity) {
        size_t used = e->key_capacity * sizeof(Key);
        e->keys = grow(L, KEYS, e->keys, used, 2 * used);
        e->key_capacity *= 2;
    }
    const char *text = lua_tolstring(L, -1, &length);
    e->keys[e->key_count++] = (Key){text, length, lua_gettop(L)};
    lua_pushvalue(L, -1);
}

/* Bytewise, a prefix before the longer key. */
static int compare_keys(const void *a, const void *b)
{
    const Key *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* ---- what kind of container a value is ---- */

typedef enum Mark { UNMARKED, MARKED_LIST, MARKED_OBJECT, READ_THROUGH } Mark;

static bool has_field(lua_State *L, int index, const char *name)
{
    if (luaL_getmetafield(L, index, name) == LUA_TNIL)
        return false;
    lua_pop(L, 1);
    return true;
}

static Mark mark_of(lua_State *L, int index)
{
    Mark mark = UNMARKED;
    if (!lua_getmetatable(L, index))
        return UNMARKED;
    if (lua_rawequal(L, -1, JSON_LIST_MARK))
        mark = MARKED_LIST;
    else if (lua_rawequal(L, -1, JSON_OBJECT_MARK))
        mark = MARKED_OBJECT;
    lua_pop(L, 1);
    if (mark == UNMARKED && has_field(L, index, "__len") && has_field(L, index, "__index"))
        return READ_THROUGH;
    return mark;
}

/* The keys of a table. */
typedef struct Shape {
    lua_Integer items;    /* integer keys from 1 */
    lua_Integer greatest; /* of them */
    size_t names;         /* string keys */
} Shape;

/* Traverses all keys; string keys stay on the stack. */
static Shape walk(Encoder *e, int slot, Mark mark)
{
    lua_State *L = e->L;
    Shape shape = {0, 0, 0};
    lua_pushnil(L);
    while (lua_next(L, slot)) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING && mark != MARKED_LIST) {
            add_key(e);
            shape.names++;
        } else if (lua_isinteger(L, -1) && lua_tointeger(L, -1) > 0 && mark != MARKED_OBJECT) {
            lua_Integer i = lua_tointeger(L, -1);
            shape.items++;
            shape.greatest = i > shape.greatest ? i : shape.greatest;
        } else {
            refuse(e, "key");
        }
    }
    return shape;
}

/* Fills in the frame of the table at f->slot. */
static void examine(Encoder *e, Frame *f, Mark mark)
{
    Shape shape = walk(e, f->slot, mark);
    if (shape.items > 0 && shape.names > 0) {
        lua_pushvalue(e->L, e->keys[f->first_key].slot);
        refuse(e, "mixed");
    }
    if (shape.items != shape.greatest) {
        lua_pushvalue(e->L, f->slot);
        refuse(e, "hole");
    }
    f->kind = mark == MARKED_LIST || shape.items > 0 ? LIST : OBJECT;
    f->count = f->kind == LIST ? shape.items : (lua_Integer)shape.names;
    if (f->kind == OBJECT)
        qsort(e->keys + f->first_key, shape.names, sizeof(Key), compare_keys);
}

static void measure(Encoder *e, Frame *f)
{
    int is_integer;
    f->kind = SEQUENCE;
    f->has_holes = has_field(e->L, f->slot, "__holes");
    lua_len(e->L, f->slot);
    f->count = lua_tointegerx(e->L, -1, &is_integer);
    lua_pop(e->L, 1);
    if (!is_integer || f->count < 0)
        refuse(e, "length");
}

/* ---- values ---- */

/* Begins the container on top of the stack, which stays there. */
static void open_frame(Encoder *e, Mark mark)
{
    Frame f = {.slot = lua_gettop(e->L), .first_key = e->key_count};
    f.identity = lua_topointer(e->L, f.slot);
    for (size_t i = 0; i < e->depth; i++)
        if (e->frames[i].identity == f.identity)
            refuse(e, "cycle");
    if (e->depth == e->max_depth)
        refuse(e, "depth");
    luaL_checkstack(e->L, LUA_MINSTACK, "json.encode");
    if (e->depth == e->frame_capacity) {
        size_t used = e->frame_capacity * sizeof(Frame);
        e->frames = grow(e->L, FRAMES, e->frames, used, 2 * used);
        e->frame_capacity *= 2;
    }
    if (mark == READ_THROUGH)
        measure(e, &f);
    else
        examine(e, &f, mark);
    e->frames[e->depth++] = f;
    put_char(e, f.kind == OBJECT ? '{' : '[');
}

static void close_frame(Encoder *e)
{
    const Frame *f = &e->frames[--e->depth];
    e->key_count = f->first_key;
    if (f->count > 0)
        put_line(e, e->depth);
    put_char(e, f->kind == OBJECT ? '}' : ']');
    lua_settop(e->L, f->slot - 1);
}

static void put_number(Encoder *e)
{
    lua_State *L = e->L;
    if (lua_isinteger(L, -1)) {
        e->used += json_write_integer(reserve(e, JSON_NUMBER_ROOM), lua_tointeger(L, -1));
    } else {
        lua_Number value = lua_tonumber(L, -1);
        if (!isfinite(value))
            refuse(e, "value");
        e->used += json_write_double(reserve(e, JSON_NUMBER_ROOM), value);
    }
}

/* Writes the scalar on top of the stack and pops it, or begins the container there. */
static void put_value(Encoder *e)
{
    lua_State *L = e->L;
    size_t length;
    const char *text;
    int type = lua_type(L, -1);
    switch (type) {
    case LUA_TSTRING:
        text = lua_tolstring(L, -1, &length);
        put_string(e, text, length);
        break;
    case LUA_TNUMBER: put_number(e); break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1))
            put(e, "true", 4);
        else
            put(e, "false", 5);
        break;
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA:
        /* A nil item was removed by a metamethod, or never existed. */
        if (type == LUA_TNIL ? e->depth > 0 : lua_touserdata(L, -1) != NULL)
            refuse(e, "value");
        put(e, "null", 4);
        break;
    case LUA_TTABLE:
    case LUA_TUSERDATA: {
        Mark mark = mark_of(L, lua_gettop(L));
        if (type == LUA_TUSERDATA && mark != READ_THROUGH)
            refuse(e, "value");
        open_frame(e, mark);
        return;
    }
    default: refuse(e, "value");
    }
    lua_pop(L, 1);
}

/* Pushes the current item of the innermost frame, after writing its key. */
static void push_item(Encoder *e, const Frame *f)
{
    if (f->kind == OBJECT) {
        const Key *key = &e->keys[f->first_key + (size_t)f->at - 1];
        put_string(e, key->text, key->length);
        put(e, ": ", e->indent > 0 ? 2 : 1);
        lua_pushvalue(e->L, key->slot);
        lua_rawget(e->L, f->slot);
    } else if (f->kind == LIST) {
        lua_rawgeti(e->L, f->slot, f->at);
    } else {
        lua_geti(e->L, f->slot, f->at);
    }
}

static void put_item(Encoder *e)
{
    Frame *f = &e->frames[e->depth - 1];
    if (f->at++ > 0)
        put_char(e, ',');
    put_line(e, e->depth);
    push_item(e, f);
    if (f->has_holes && lua_isnil(e->L, -1)) {
        put(e, "null", 4);
        lua_pop(e->L, 1);
    } else {
        put_value(e);
    }
}

static void encode(Encoder *e)
{
    put_value(e);
    while (e->depth > 0) {
        const Frame *f = &e->frames[e->depth - 1];
        if (f->at < f->count)
            put_item(e);
        else
            close_frame(e);
    }
}

/* value, indent, max_depth (integers or nil) -> text */
int json_lua_encode(lua_State *L)
{
    Encoder e;
    lua_Integer indent = luaL_optinteger(L, 2, 0);
    lua_Integer max_depth = luaL_optinteger(L, 3, JSON_DEFAULT_DEPTH);
    e.L = L;
    e.indent = (int)indent;
    e.max_depth = (size_t)max_depth;
    e.text = e.small_text, e.used = 0, e.room = SMALL_TEXT;
    e.frames = e.small_frames, e.depth = 0, e.frame_capacity = SMALL_FRAMES;
    e.keys = e.small_keys, e.key_count = 0, e.key_capacity = SMALL_KEYS;
    lua_settop(L, 1);
    lua_settop(L, KEYS);
    lua_pushvalue(L, 1);
    encode(&e);
    lua_pushlstring(L, e.text, e.used);
    return 1;
}
