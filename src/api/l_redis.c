/*
 * l_redis.c -- ponder.core.redis: a connection to Redis, for ponder.redis. Described in
 * lua/ponder/meta/redis.lua.
 */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "queue/redis.h"

#define CONNECTION "ponder.redis.Connection"

static Redis *to_redis(lua_State *L)
{
    return api_check_box(L, CONNECTION, "connection");
}

static void close_redis(void *redis)
{
    redis_close(redis);
}

/* connect(url, socket_path | nil, ca_file | nil, connect_timeout_ms) -> connection */
static int redis_l_connect(lua_State *L)
{
    offline_refuse(L, "redis.connect");
    Alloc alloc = api_alloc(L);
    RedisOptions options = {.url = luaL_checkstring(L, 1),
                            .socket_path = luaL_optstring(L, 2, NULL),
                            .ca_file = luaL_optstring(L, 3, NULL),
                            .connect_timeout_ms = luaL_checkinteger(L, 4)};
    Box *box = api_new_box(L, CONNECTION, sizeof *box, close_redis);
    box->held = redis_open(&alloc, &options);
    if (box->held == NULL)
        return luaL_error(L, "redis.connect: %s%s", strerror(errno), loop_descriptor_hint(errno));
    return 1;
}

/* connection:send(list): of strings and integers */
static int connection_send(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TTABLE);
    size_t count = lua_rawlen(L, 2);
    luaL_argcheck(L, count > 0 && count < 1 << 20, 2, "no words, or too many");
    luaL_checkstack(L, (int)count + 2, NULL);
    const char **words = lua_newuserdatauv(L, count * (sizeof *words + sizeof(size_t)), 0);
    size_t *sizes = (size_t *)(void *)(words + count);
    for (size_t i = 0; i < count; i++) { /* the strings stay on the stack while in use */
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        words[i] = lua_tolstring(L, -1, &sizes[i]);
        luaL_argcheck(L, words[i] != NULL, 2, "words must be strings or numbers");
    }
    if (!redis_send(to_redis(L), (int)count, words, sizes))
        return luaL_error(L, "not enough memory for commands to Redis");
    return 0;
}

static int connection_flush(lua_State *L)
{
    redis_flush(to_redis(L));
    return 0;
}

static void push_reply(lua_State *L, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: lua_pushlstring(L, reply->str, reply->len); return;
    case REDIS_REPLY_INTEGER: lua_pushinteger(L, reply->integer); return;
    case REDIS_REPLY_NIL: lua_pushboolean(L, 0); return;
    default: break;
    }
    luaL_checkstack(L, 4, NULL);
    if (reply->type == REDIS_REPLY_ERROR) {
        lua_createtable(L, 0, 1);
        lua_pushlstring(L, reply->str, reply->len);
        lua_setfield(L, -2, "error");
        return;
    }
    lua_createtable(L, (int)reply->elements, 0);
    for (size_t i = 0; i < reply->elements; i++) {
        push_reply(L, reply->element[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static int take_reply(lua_State *L)
{
    Redis *r = api_held(L);
    const redisReply *reply = redis_first_reply(r);
    if (reply == NULL)
        return 0;
    bool is_error = reply->type == REDIS_REPLY_ERROR;
    lua_pushboolean(L, !is_error);
    if (is_error)
        lua_pushlstring(L, reply->str, reply->len);
    else
        push_reply(L, reply);
    redis_drop_reply(r);
    return 2;
}

/* connection:take() -> true, reply | false, error | nothing */
static int connection_take(lua_State *L)
{
    to_redis(L);
    return api_use_box(L, 1, take_reply);
}

static int push_state(lua_State *L)
{
    static const char *const names[] = {"connecting", "open", "broken"};
    const char *code, *text;
    lua_pushstring(L, names[redis_state(api_held(L), &code, &text)]);
    if (code == NULL)
        return 1;
    lua_pushstring(L, text);
    lua_pushstring(L, code);
    return 3;
}

/* connection:state() -> "connecting" | "open" | "broken", message, code */
static int connection_state(lua_State *L)
{
    to_redis(L);
    return api_use_box(L, 1, push_state);
}

PONDER_MODULE(luaopen_ponder_core_redis)
{
    static const luaL_Reg methods[] = {{"close", api_close},
                                       {"flush", connection_flush},
                                       {"port", api_port},
                                       {"send", connection_send},
                                       {"state", connection_state},
                                       {"take", connection_take},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"connect", redis_l_connect}, {NULL, NULL}};
    api_new_class(L, CONNECTION, methods);
    luaL_newlib(L, functions);
    return 1;
}
