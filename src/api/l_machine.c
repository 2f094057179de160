/*
 * l_machine.c -- see l_machine.h; the machines trm and cot, which have only statuses and calls; and
 * ponder.core.machine: ids that are unique in the process, the monotonic clock, and preallocated
 * lists.
 */
#include "api/l_machine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "loop/loop.h"

#define MAX_NEW_LIST 10000 /* items that new_list allocates at most */

void *machine_self(lua_State *L)
{
    Machine *m = lua_touserdata(L, 1);
    bool same = lua_getmetatable(L, 1) && lua_rawequal(L, -1, lua_upvalueindex(1));
    if (m == NULL || !same)
        luaL_typeerror(L, 1, "machine core");
    luaL_argcheck(L, m->kind != NULL, 1, "the machine is closed");
    lua_pop(L, 1);
    return m;
}

bool machine_is_collected(lua_State *L, Machine *m)
{
    if (!api_is_collected(L))
        return false;
    m->kind = NULL; /* for finalizers that run later, and still have it */
    return true;
}

void *machine_new_userdata(lua_State *L, size_t size, const MachineKind *kind)
{
    Machine *m = lua_newuserdatauv(L, size, 1); /* [userdata] */
    Alloc alloc = api_alloc(L);
    memset(m, 0, size);
    machine_init(m, &alloc, kind);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setmetatable(L, -2);
    return m;
}

void *machine_new_copy(lua_State *L, size_t size)
{
    const Machine *from = machine_self(L);
    Machine *m = machine_new_userdata(L, size, from->kind); /* [copy] */
    if (!machine_copy(m, from))
        luaL_error(L, "not enough memory");
    lua_getiuservalue(L, 1, 1);
    lua_setiuservalue(L, -2, 1);
    return m;
}

void machine_push_number(lua_State *L, double value)
{
    lua_Integer whole;
    if (isnan(value))
        lua_pushnil(L);
    else if (lua_numbertointeger(value, &whole) && (double)whole == value)
        lua_pushinteger(L, whole);
    else
        lua_pushnumber(L, value);
}

void machine_push_score(lua_State *L, double value)
{
    if (isnan(value))
        lua_pushnil(L);
    else
        lua_pushnumber(L, value);
}

void machine_push_index(lua_State *L, uint32_t index)
{
    if (index == UINT32_MAX)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)index + 1);
}

void machine_push_indexes(lua_State *L, const uint32_t *indexes, uint32_t count)
{
    lua_createtable(L, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        machine_push_index(L, indexes[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

uint32_t machine_check_index(lua_State *L, int arg, uint32_t count)
{
    lua_Integer i = luaL_checkinteger(L, arg);
    luaL_argcheck(L, i >= 1 && i <= count, arg, "no such number");
    return (uint32_t)(i - 1);
}

uint32_t machine_check_count(lua_State *L, int arg)
{
    lua_Integer n = luaL_checkinteger(L, arg);
    luaL_argcheck(L, n >= 0 && n <= INT32_MAX, arg, "out of range");
    return (uint32_t)n;
}

double machine_score_at(lua_State *L, int list, uint32_t i, double absent)
{
    bool is_number = lua_rawgeti(L, list, (lua_Integer)i + 1) == LUA_TNUMBER;
    double score = is_number ? lua_tonumber(L, -1) : NAN;
    lua_pop(L, 1);
    return isnan(score) ? absent : score <= 0 ? 0 : score >= 1 ? 1 : score;
}

uint32_t *machine_push_room(lua_State *L, size_t count)
{
    return lua_newuserdatauv(L, count * sizeof(uint32_t) + 1, 0);
}

uint64_t machine_number_of(const char *id)
{
    if (id[0] != 'c' || id[1] < '1' || id[1] > '9')
        return MACHINE_NO_NUMBER;
    uint64_t n = 0;
    for (const char *p = id + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || n > (uint64_t)MACHINE_NUMBER_LIMIT / 10)
            return MACHINE_NO_NUMBER;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    return n;
}

uint64_t machine_check_id(lua_State *L, int arg)
{
    if (lua_type(L, arg) != LUA_TSTRING)
        return MACHINE_NO_NUMBER;
    lua_getiuservalue(L, 1, 1);
    bool is_start = lua_rawequal(L, -1, arg);
    lua_pop(L, 1);
    size_t length;
    const char *id = lua_tolstring(L, arg, &length);
    return is_start ? 0 : strlen(id) == length ? machine_number_of(id) : MACHINE_NO_NUMBER;
}

void machine_push_numbered(lua_State *L, char letter, uint64_t number)
{
    char id[24], *at = id + sizeof id;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    *--at = letter;
    lua_pushlstring(L, at, (size_t)(id + sizeof id - at));
}

void machine_push_id(lua_State *L, uint64_t number)
{
    if (number == 0)
        lua_getiuservalue(L, 1, 1);
    else
        machine_push_numbered(L, 'c', number);
}

void machine_push_calls(lua_State *L, const Machine *m)
{
    lua_createtable(L, (int)m->call_count, 0);
    for (uint32_t i = 0; i < m->call_count; i++) {
        machine_push_id(L, m->calls[i].number);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

int machine_start_self(lua_State *L)
{
    Machine *m = machine_self(L);
    uint64_t reserved = machine_number_of(luaL_checkstring(L, 2));
    double now = luaL_checknumber(L, 3);
    if (m->status != MACHINE_IDLE)
        luaL_error(L, "%s: start: the machine is not idle", m->kind->name);
    if (!machine_start(m, reserved, now))
        luaL_error(L, "not enough memory");
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 1, 1);
    return 0;
}

uint32_t machine_index_of(lua_State *L, int arg, const char *const *names)
{
    const char *name = lua_type(L, arg) == LUA_TSTRING ? lua_tostring(L, arg) : "";
    uint32_t i = 0;
    while (names[i] != NULL && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static uint32_t check_name(lua_State *L, int arg, const char *const *names)
{
    uint32_t i = machine_index_of(L, arg, names);
    luaL_argcheck(L, names[i] != NULL, arg, "unknown name");
    return i;
}

static int m_status(lua_State *L)
{
    const Machine *m = machine_self(L);
    lua_pushstring(L, m->kind->statuses[m->status]);
    return 1;
}

static int m_is_busy(lua_State *L)
{
    lua_pushboolean(L, machine_is_busy(machine_self(L)));
    return 1;
}

static int m_find_call(lua_State *L)
{
    const Machine *m = machine_self(L);
    const MachineCall *call = machine_find(m, machine_check_id(L, 2));
    if (call == NULL)
        return 0;
    lua_pushstring(L, m->kind->calls[call->kind]);
    lua_pushinteger(L, call->subject);
    return 2;
}

static int m_current_call(lua_State *L)
{
    const Machine *m = machine_self(L);
    if (m->current.number == MACHINE_NO_NUMBER)
        return 0;
    machine_push_id(L, m->current.number);
    lua_pushstring(L, m->kind->calls[m->current.kind]);
    lua_pushinteger(L, m->current.subject);
    return 3;
}

static int m_open_call(lua_State *L)
{
    Machine *m = machine_self(L);
    uint32_t kind = check_name(L, 2, m->kind->calls);
    lua_Integer subject = luaL_checkinteger(L, 3);
    luaL_argcheck(L, subject >= 0 && subject <= UINT32_MAX, 3, "out of range");
    luaL_argcheck(L, machine_is_busy(m), 1, "not running");
    if (!machine_reserve(m, 1))
        luaL_error(L, "not enough memory");
    machine_push_id(L, machine_open(m, kind, (uint32_t)subject));
    return 1;
}

static int m_close_call(lua_State *L)
{
    Machine *m = machine_self(L);
    lua_pushboolean(L, machine_close(m, machine_check_id(L, 2)));
    return 1;
}

static int m_move(lua_State *L)
{
    Machine *m = machine_self(L);
    uint8_t to = (uint8_t)check_name(L, 2, m->kind->statuses);
    bool moved =
        to >= MACHINE_BUSY ? machine_move(m, to) : machine_finish(m, to, luaL_checknumber(L, 3));
    if (!moved)
        return luaL_error(L, "%s: no move from %s to %s", m->kind->name,
                          m->kind->statuses[m->status], m->kind->statuses[to]);
    return 0;
}

static int m_times(lua_State *L)
{
    const Machine *m = machine_self(L);
    machine_push_number(L, m->started_at);
    machine_push_number(L, m->finished_at);
    return 2;
}

static const luaL_Reg shared_methods[] = {
    {"status", m_status},
    {"is_busy", m_is_busy},
    {"find_call", m_find_call},
    {"current_call", m_current_call},
    {"open_call", m_open_call},
    {"close_call", m_close_call},
    {"move", m_move},
    {"times", m_times},
    {"save", machine_save},
    {"restore", machine_load},
    {NULL, NULL},
};

static void push_transitions(lua_State *L, const MachineKind *kind)
{
    lua_createtable(L, (int)kind->move_count, 0);
    for (size_t i = 0; i < kind->move_count; i++) {
        lua_createtable(L, 0, 3);
        api_set_string(L, "from", kind->statuses[kind->moves[i].from]);
        api_set_string(L, "to", kind->statuses[kind->moves[i].to]);
        api_set_string(L, "on", kind->moves[i].by);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

void machine_new_class(lua_State *L, const MachineKind *kind, const luaL_Reg *methods,
                       lua_CFunction new, lua_CFunction gc)
{
    const luaL_Reg *const lists[] = {shared_methods, methods};
    lua_newtable(L); /* [metatable] */
    int metatable = lua_gettop(L);
    lua_pushfstring(L, "ponder.core.%s", kind->name);
    lua_setfield(L, metatable, "__name");
    lua_pushboolean(L, false); /* the result of getmetatable */
    lua_setfield(L, metatable, "__metatable");
    lua_pushvalue(L, metatable);
    lua_pushcclosure(L, gc, 1);
    lua_setfield(L, metatable, "__gc"); /* no __close: a finalizer could call it during a method */
    lua_newtable(L);                    /* [metatable, index] */
    for (size_t i = 0; i < 2; i++) {
        lua_pushvalue(L, metatable);
        luaL_setfuncs(L, lists[i], 1);
    }
    lua_setfield(L, metatable, "__index");
    lua_newtable(L); /* [metatable, library] */
    lua_pushvalue(L, metatable);
    lua_pushlightuserdata(L, (void *)kind);
    lua_pushcclosure(L, new, 2);
    lua_setfield(L, -2, "new");
    push_transitions(L, kind);
    lua_setfield(L, -2, "transitions");
    lua_remove(L, metatable); /* [library] */
}

/* ---- plain machines ---- */

static int plain_gc(lua_State *L)
{
    Machine *m = machine_self(L);
    if (machine_is_collected(L, m))
        machine_free(m);
    return 0;
}

static int plain_clone(lua_State *L)
{
    machine_new_copy(L, sizeof(Machine));
    return 1;
}

static int plain_new(lua_State *L)
{
    machine_new_userdata(L, sizeof(Machine), lua_touserdata(L, lua_upvalueindex(2)));
    return 1;
}

/* For a kind without data and methods of its own. */
static int new_plain_class(lua_State *L, const MachineKind *kind)
{
    static const luaL_Reg methods[] = {
        {"clone", plain_clone}, {"start", machine_start_self}, {NULL, NULL}};
    machine_new_class(L, kind, methods, plain_new, plain_gc);
    return 1;
}

/* ---- ponder.core.trm: lua/ponder/trm.lua does the rest. A busy machine has one open call. ---- */

enum { REASONING = MACHINE_BUSY, SUPERVISING, IMPROVING };

static const char *const trm_statuses[] = {"idle",        "completed", "error", "reasoning",
                                           "supervising", "improving", NULL};
static const char *const trm_calls[] = {"reason", "supervise", "improve", NULL};

static const MachineMove trm_moves[] = {
    {MACHINE_IDLE, REASONING, "start"},      {REASONING, SUPERVISING, "reasoning"},
    {SUPERVISING, IMPROVING, "supervision"}, {SUPERVISING, MACHINE_COMPLETED, "supervision"},
    {IMPROVING, REASONING, "improvement"},   {IMPROVING, MACHINE_COMPLETED, "improvement"},
    {REASONING, MACHINE_ERROR, "error"},     {SUPERVISING, MACHINE_ERROR, "error"},
    {IMPROVING, MACHINE_ERROR, "error"},
};

PONDER_MODULE(luaopen_ponder_core_trm)
{
    static const MachineKind kind = {"trm", trm_statuses, trm_calls, trm_moves,
                                     sizeof trm_moves / sizeof *trm_moves};
    return new_plain_class(L, &kind);
}

/* ---- ponder.core.cot: one call; lua/ponder/strategy/cot.lua does the rest ---- */

enum { ANSWERING = MACHINE_BUSY };

static const char *const cot_statuses[] = {"idle", "completed", "error", "answering", NULL};
static const char *const cot_calls[] = {"answer", NULL};

static const MachineMove cot_moves[] = {
    {MACHINE_IDLE, ANSWERING, "start"},
    {ANSWERING, MACHINE_COMPLETED, "answer"},
    {ANSWERING, MACHINE_ERROR, "error"},
};

PONDER_MODULE(luaopen_ponder_core_cot)
{
    static const MachineKind kind = {"cot", cot_statuses, cot_calls, cot_moves,
                                     sizeof cot_moves / sizeof *cot_moves};
    return new_plain_class(L, &kind);
}

/* ---- ponder.core.machine ---- */

/* unique_id(prefix) -> a string unique in this process */
static int unique_id(lua_State *L)
{
    static atomic_ullong last;
    const char *prefix = luaL_checkstring(L, 1);
    unsigned long long n = atomic_fetch_add(&last, 1) + 1;
    lua_pushfstring(L, "%s%I", prefix, (LUAI_UACINT)n);
    return 1;
}

/* clock_ms() -> milliseconds of the monotonic clock */
static int clock_ms(lua_State *L)
{
    lua_pushnumber(L, loop_now_ms());
    return 1;
}

/* new_list(n) -> a table with room for n items */
static int new_list(lua_State *L)
{
    lua_Integer n = luaL_checkinteger(L, 1);
    lua_createtable(L, n < 0 ? 0 : n > MAX_NEW_LIST ? MAX_NEW_LIST : (int)n, 0);
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_machine)
{
    static const luaL_Reg functions[] = {
        {"unique_id", unique_id},
        {"clock_ms", clock_ms},
        {"new_list", new_list},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
