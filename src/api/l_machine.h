/*
 * l_machine.h -- the Lua side that the reasoning machines share.
 *
 * Each machine is a full userdata that begins with a Machine and has one user value: the id (a
 * string) that the caller passed to start. A kind of machine makes its metatable with
 * machine_new_class, which adds the methods below to its own. All methods are closures with the
 * metatable as first upvalue, so machine_self checks its userdata without a registry lookup.
 *
 *     core:status()               "idle", ...
 *     core:is_busy()
 *     core:find_call(id)          -> kind, subject    nothing if no such call is open
 *     core:current_call()         -> id, kind, subject    nothing before the start
 *     core:open_call(kind, subject) -> id
 *     core:close_call(id)         -> whether it was open
 *     core:move(status, now)      raises if the table of moves does not have it; "completed" and
 *                                 "error" drop the open calls
 *     core:times()                -> when it started, when it finished: ms, or nil
 *     core:save()                 -> a plain table, and
 *     core:restore(table)         -> true, or nil, the name of the field, what was expected there
 *
 * Subjects are passed to Lua unchanged; a kind that counts from 1 in Lua converts them itself.
 */
#ifndef PONDER_API_L_MACHINE_H
#define PONDER_API_L_MACHINE_H

#include "api/api.h"
#include "core/machine.h"

/* Pushes a new userdata of `size` bytes that begins with an idle Machine; its metatable is the
 * class in upvalue 1. */
void *machine_new_userdata(lua_State *L, size_t size, const MachineKind *kind);

/* Pushes a copy of the Machine at argument 1; the rest is zero, for the caller to copy. */
void *machine_new_copy(lua_State *L, size_t size);

/* Pushes a library table: `new`, which has the metatable and the kind as upvalues, and
 * `transitions`, a list of {from=, to=, on=}. The metatable gets `methods`, those above, and `gc`
 * as __gc. */
void machine_new_class(lua_State *L, const MachineKind *kind, const luaL_Reg *methods,
                       lua_CFunction new, lua_CFunction gc);

/* Argument 1, which must be a userdata of the class in upvalue 1. */
void *machine_self(lua_State *L);

/* Whether the collector calls this finalizer, which is to free the machine. */
bool machine_is_collected(lua_State *L, Machine *m);

/* The call number of the id at `arg` in the machine at argument 1; MACHINE_NO_NUMBER if the machine
 * cannot have made that id. */
uint64_t machine_check_id(lua_State *L, int arg);

/* core:start(call_id, now): starts the machine, whose call 0 has that id; raises if it is not idle.
 */
int machine_start_self(lua_State *L);

/* Pushes "n7" and the like, several times as fast as lua_pushfstring. */
void machine_push_numbered(lua_State *L, char letter, uint64_t number);

/* Pushes the id of a call of the machine at argument 1. */
void machine_push_id(lua_State *L, uint64_t number);

/* Pushes the list of the ids of all open calls. */
void machine_push_calls(lua_State *L, const Machine *m);

/* Nodes, edges and slots count from 0 in the core and from 1 in Lua: pushes such an index, nil for
 * UINT32_MAX; a list of them. */
void machine_push_index(lua_State *L, uint32_t index);
void machine_push_indexes(lua_State *L, const uint32_t *indexes, uint32_t count);

/* Argument `arg` as an index of the core, below `count`. */
uint32_t machine_check_index(lua_State *L, int arg, uint32_t count);

/* Argument `arg`, a number from 0 to INT32_MAX. */
uint32_t machine_check_count(lua_State *L, int arg);

/* Item i (from 0) of the list of scores at `list`, clamped; `absent` if it is not a number. */
double machine_score_at(lua_State *L, int list, uint32_t i, double absent);

/* Pushes a userdata with room for `count` numbers. */
uint32_t *machine_push_room(lua_State *L, size_t count);

/* Pushes a number, whole ones as integers; nil for NaN. */
void machine_push_number(lua_State *L, double value);

/* Pushes a score, always a float; nil for NaN. */
void machine_push_score(lua_State *L, double value);

/* ---- shared with l_machine_map.c ---- */

#define MACHINE_NUMBER_LIMIT ((lua_Integer)1 << 53) /* exact in JSON */

/* The N of an id "cN", N >= 1 without leading zeros; else MACHINE_NO_NUMBER. */
uint64_t machine_number_of(const char *id);

/* The index of the string at `arg` in the list of names; their count if it is not one of them. */
uint32_t machine_index_of(lua_State *L, int arg, const char *const *names);

int machine_save(lua_State *L);
int machine_load(lua_State *L);

#endif
