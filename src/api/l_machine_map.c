/*
 * l_machine_map.c -- core:save and core:restore of a machine (see l_machine.h): status and calls to
 * a plain table, and back from one that may be hostile.
 */
#include "api/l_machine.h"

#include <math.h>
#include <string.h>

static void save_call(lua_State *L, const Machine *m, const MachineCall *call)
{
    lua_createtable(L, 0, 3); /* [call] */
    machine_push_id(L, call->number);
    lua_setfield(L, -2, "id");
    api_set_string(L, "kind", m->kind->calls[call->kind]);
    api_set_integer(L, "subject", call->subject);
}

int machine_save(lua_State *L)
{
    const Machine *m = machine_self(L);
    lua_createtable(L, 0, 8); /* [saved] */
    api_set_string(L, "status", m->kind->statuses[m->status]);
    api_set_integer(L, "next_call", (lua_Integer)m->next_number);
    lua_getiuservalue(L, 1, 1);
    lua_setfield(L, -2, "start_call_id");
    machine_push_number(L, m->started_at);
    lua_setfield(L, -2, "started_at");
    machine_push_number(L, m->finished_at);
    lua_setfield(L, -2, "finished_at");
    if (m->current.number != MACHINE_NO_NUMBER) {
        save_call(L, m, &m->current);
        lua_setfield(L, -2, "current_call");
    }
    lua_createtable(L, (int)m->call_count, 0); /* [saved, calls] */
    for (uint32_t i = 0; i < m->call_count; i++) {
        save_call(L, m, &m->calls[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "calls");
    return 1;
}

/* The results of a failed restore: nil, the field, what was expected there. */
static int refuse(lua_State *L, const char *field, const char *expected)
{
    lua_pushnil(L);
    lua_pushstring(L, field);
    lua_pushstring(L, expected);
    return 3;
}

static int refuse_call(lua_State *L, lua_Integer i, const char *field, const char *expected)
{
    lua_pushnil(L);
    if (i == 0)
        lua_pushfstring(L, "current_call.%s", field);
    else
        lua_pushfstring(L, "calls[%I].%s", (LUAI_UACINT)i, field);
    lua_pushstring(L, expected);
    return 3;
}

/* Reads the call in the table on top of the stack, the i-th (0: the current one). Returns 0, or
 * what refuse returned. */
static int load_call(lua_State *L, const Machine *m, lua_Integer i, MachineCall *call)
{
    int at = lua_gettop(L);
    lua_getfield(L, at, "id");
    call->number = machine_check_id(L, at + 1);
    if (call->number == MACHINE_NO_NUMBER)
        return refuse_call(L, i, "id", "a call id of this machine");
    lua_getfield(L, at, "kind");
    call->kind = machine_index_of(L, at + 2, m->kind->calls);
    if (m->kind->calls[call->kind] == NULL)
        return refuse_call(L, i, "kind", "a kind of call");
    lua_getfield(L, at, "subject");
    lua_Integer subject = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    if (subject < 0 || subject > UINT32_MAX)
        return refuse_call(L, i, "subject", "an integer >= 0");
    call->subject = (uint32_t)subject;
    lua_settop(L, at);
    return 0;
}

/* Reads saved.calls, on top of the stack, into a userdata that replaces it. */
static int load_calls(lua_State *L, const Machine *m, MachineSaved *saved)
{
    lua_Unsigned count = lua_rawlen(L, -1);
    if (count > 1000000)
        return refuse(L, "calls", "at most 1000000 calls");
    int list = lua_gettop(L);
    MachineCall *calls = lua_newuserdatauv(L, (size_t)count * sizeof *calls + 1, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        if (lua_rawgeti(L, list, (lua_Integer)i + 1) != LUA_TTABLE)
            return refuse_call(L, (lua_Integer)i + 1, "id", "a table");
        int refused = load_call(L, m, (lua_Integer)i + 1, &calls[i]);
        if (refused)
            return refused;
        lua_pop(L, 1);
    }
    lua_replace(L, list);
    saved->calls = calls;
    saved->call_count = (uint32_t)count;
    return 0;
}

static double field_time(lua_State *L, const char *name)
{
    double time = lua_getfield(L, 2, name) == LUA_TNUMBER ? lua_tonumber(L, -1) : NAN;
    lua_pop(L, 1);
    return time;
}

static int load_numbers(lua_State *L, const Machine *m, MachineSaved *saved)
{
    lua_getfield(L, 2, "status");
    saved->status = (uint8_t)machine_index_of(L, -1, m->kind->statuses);
    if (m->kind->statuses[saved->status] == NULL)
        return refuse(L, "status", "a status of this machine");
    lua_getfield(L, 2, "next_call");
    lua_Integer next = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    if (next < 1 || next > MACHINE_NUMBER_LIMIT)
        return refuse(L, "next_call", "an integer >= 1");
    saved->next_number = (uint64_t)next;
    saved->reserved_number = MACHINE_NO_NUMBER;
    if (lua_getfield(L, 2, "start_call_id") == LUA_TSTRING)
        saved->reserved_number = machine_number_of(lua_tostring(L, -1));
    else if (saved->status != MACHINE_IDLE)
        return refuse(L, "start_call_id", "a string");
    lua_setiuservalue(L, 1, 1);
    saved->started_at = field_time(L, "started_at");
    saved->finished_at = field_time(L, "finished_at");
    if (saved->status != MACHINE_IDLE && isnan(saved->started_at))
        return refuse(L, "started_at", "a number");
    return 0;
}

int machine_load(lua_State *L)
{
    Machine *m = machine_self(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, m->status == MACHINE_IDLE && m->call_count == 0, 1, "not fresh");
    MachineSaved saved;
    memset(&saved, 0, sizeof saved);
    saved.current.number = MACHINE_NO_NUMBER;
    int refused = load_numbers(L, m, &saved);
    if (refused)
        return refused;
    if (lua_getfield(L, 2, "current_call") == LUA_TTABLE) {
        refused = load_call(L, m, 0, &saved.current);
        if (refused)
            return refused;
    } else if (saved.status != MACHINE_IDLE) {
        return refuse(L, "current_call", "a table");
    }
    if (lua_getfield(L, 2, "calls") != LUA_TTABLE)
        return refuse(L, "calls", "a list");
    refused = load_calls(L, m, &saved);
    if (refused)
        return refused;
    if (!machine_reserve(m, saved.call_count))
        return luaL_error(L, "not enough memory");
    if (!machine_restore(m, &saved))
        return refuse(L, "calls", "the open calls of that status, oldest first");
    lua_pushboolean(L, true);
    return 1;
}
