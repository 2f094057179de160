/*
 * l_machine_map.c -- core:save and core:restore of a machine (see l_machine.h): status and calls to
 * a plain table, and back from one whose types lua/ponder/machine/map.lua has checked.
 */
#include "api/l_machine.h"

#include <math.h>

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
static int refuse_call(lua_State *L, lua_Integer i, const char *field, const char *expected)
{
    return api_fail(L,
                    i == 0 ? lua_pushfstring(L, "current_call.%s", field)
                           : lua_pushfstring(L, "calls[%I].%s", (LUAI_UACINT)i, field),
                    expected);
}

/* Reads the call in the table on top of the stack, the i-th (0: the current one), and pops it.
 * Returns 0, or what refuse returned. */
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
    call->subject = (uint32_t)luaL_checkinteger(L, at + 3);
    lua_settop(L, at - 1);
    return 0;
}

/* The list of open calls is on top of the stack. */
static int load_calls(lua_State *L, Machine *m)
{
    lua_Unsigned count = lua_rawlen(L, -1);
    if (count > UINT32_MAX || !machine_reserve(m, (uint32_t)count))
        luaL_error(L, "not enough memory");
    while (m->call_count < count) {
        lua_Integer i = (lua_Integer)m->call_count + 1;
        lua_rawgeti(L, -1, i);
        int refused = load_call(L, m, i, &m->calls[m->call_count]);
        if (refused)
            return refused;
        m->call_count++;
    }
    return 0;
}

static double field_time(lua_State *L, const char *name)
{
    double time = lua_getfield(L, 2, name) == LUA_TNUMBER ? lua_tonumber(L, -1) : NAN;
    lua_pop(L, 1);
    return time;
}

static int load_numbers(lua_State *L, Machine *m)
{
    lua_getfield(L, 2, "status");
    uint32_t status = machine_index_of(L, -1, m->kind->statuses);
    if (m->kind->statuses[status] == NULL)
        return api_fail(L, "status", "a status of this machine");
    m->status = (uint8_t)status;
    lua_getfield(L, 2, "next_call");
    lua_Integer next = luaL_checkinteger(L, -1);
    if (next < 1 || next > MACHINE_NUMBER_LIMIT)
        return api_fail(L, "next_call", "an integer from 1 to 2^53");
    m->next_number = (uint64_t)next;
    if (lua_getfield(L, 2, "start_call_id") == LUA_TSTRING)
        m->reserved_number = machine_number_of(lua_tostring(L, -1));
    else if (status != MACHINE_IDLE)
        return api_fail(L, "start_call_id", "a string");
    lua_setiuservalue(L, 1, 1);
    m->started_at = field_time(L, "started_at");
    m->finished_at = field_time(L, "finished_at");
    if (status != MACHINE_IDLE && isnan(m->started_at))
        return api_fail(L, "started_at", "a number");
    return 0;
}

/* A machine that was refused is in no state to be used. */
int machine_load(lua_State *L)
{
    Machine *m = machine_self(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, m->status == MACHINE_IDLE && m->call_count == 0, 1, "not fresh");
    int refused = load_numbers(L, m);
    if (!refused && lua_getfield(L, 2, "current_call") == LUA_TTABLE)
        refused = load_call(L, m, 0, &m->current);
    else if (!refused && m->status != MACHINE_IDLE)
        refused = api_fail(L, "current_call", "a table");
    if (!refused) {
        lua_getfield(L, 2, "calls");
        refused = load_calls(L, m);
    }
    if (refused)
        return refused;
    if (!machine_is_coherent(m))
        return api_fail(L, "calls", "the open calls of that status, oldest first");
    if (m->call_count > 0)
        m->current = m->calls[0];
    lua_pushboolean(L, true);
    return 1;
}
