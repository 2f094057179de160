/*
 * l_reader.c -- ponder.core.reader: reads an open descriptor, such as standard input, on the event
 * loop. Described in lua/ponder/meta/reader.lua.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "core/buffer.h"
#include "loop/loop.h"

#define READER "ponder.reader.Reader"

enum { READ_SIZE = 65536, MAX_READ_AHEAD = 1 << 20 };

typedef struct Reader {
    LoopPort port;
    LoopHandle *watch; /* NULL: a file, which is always ready */
    Alloc alloc;
    Buffer read;
    int fd;
    bool ended;
} Reader;

typedef struct LuaReader {
    Box box;
    Reader reader;
} LuaReader;

static void read_some(Reader *r)
{
    if (!buffer_reserve(&r->read, &r->alloc, READ_SIZE))
        return; /* out of memory: try again later */
    ssize_t n = read(r->fd, r->read.data + r->read.size, READ_SIZE);
    if (n > 0)
        r->read.size += (size_t)n;
    r->ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    if (r->watch != NULL && (r->ended || r->read.size >= MAX_READ_AHEAD))
        loop_watch_for(r->watch, 0);
    if (n >= 0 || r->ended)
        loop_post(&r->port);
}

static void on_readable(void *reader, int fd, int events)
{
    (void)fd, (void)events;
    read_some(reader);
}

static void close_reader(void *reader)
{
    Reader *r = reader;
    loop_end(r->watch);
    loop_unpost(&r->port);
    buffer_free(&r->read, &r->alloc);
}

static int reader_open(lua_State *L)
{
    lua_Integer fd = luaL_checkinteger(L, 1);
    LuaReader *box = api_new_box(L, READER, sizeof *box, close_reader);
    Reader *r = &box->reader;
    r->alloc = api_alloc(L);
    r->fd = (int)fd;
    loop_port_open(&r->port);
    box->box.held = r;
    r->watch = loop_watch(r->fd, LOOP_READ, on_readable, r);
    if (r->watch == NULL && errno != EPERM)
        return luaL_error(L, "reader.open: %s%s", strerror(errno), loop_descriptor_hint(errno));
    if (r->watch == NULL)
        loop_post(&r->port);
    return 1;
}

static int take_bytes(lua_State *L)
{
    Reader *r = api_held(L);
    if (r->watch == NULL && !r->ended)
        read_some(r);
    lua_pushlstring(L, r->read.size > 0 ? r->read.data : "", r->read.size);
    lua_pushboolean(L, r->ended);
    buffer_reset(&r->read, &r->alloc, READ_SIZE);
    if (r->watch != NULL && !r->ended)
        loop_watch_for(r->watch, LOOP_READ);
    return 2;
}

static int reader_take(lua_State *L)
{
    api_check_box(L, READER, "reader");
    return api_use_box(L, 1, take_bytes);
}

PONDER_MODULE(luaopen_ponder_core_reader)
{
    static const luaL_Reg methods[] = {
        {"close", api_close}, {"number", api_port}, {"take", reader_take}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", reader_open}, {NULL, NULL}};
    api_new_class(L, READER, methods);
    luaL_newlib(L, functions);
    return 1;
}
