/*
 * l_machine.h -- the Lua side that l_tot.c, l_got.c and l_trm.c share.
 *
 * Each machine is a full userdata that begins with a Machine and has one user value: the id (a
 * string) that the caller gave to start. A kind of machine makes its metatable with
 * machine_new_class, which adds the methods below to its own; all of them are closures with the
 * metatable as first upvalue, so machine_self recognises its userdata without a registry lookup.
 *
 *     core:status()               "idle", ...
 *     core:is_busy()  core:is_final()
 *     core:find_call(id)          -> kind, subject    nothing where no such call is open
 *     core:current_call()         -> id, kind, subject    nothing before the start
 *     core:open_call(kind, subject) -> id
 *     core:close_call(id)         -> whether it was open
 *     core:move(status)           raises where the table of moves does not have it
 *     core:finish(status, now)    "completed" or "error"; drops the open calls
 *     core:started_at()  core:finished_at()    ms, or nil
 *     core:save()                 -> a plain table, and
 *     core:restore(table)         -> true, or nil, the name of the field, what was expected there
 *
 * Subjects are handed to Lua as they are; a kind that counts from 1 in Lua converts them itself.
 */
#ifndef PONDER_API_L_MACHINE_H
#define PONDER_API_L_MACHINE_H

#include "api/api.h"
#include "core/machine.h"

/* Pushes a new userdata of `size` bytes, begun as an idle Machine, with the class of upvalue 1 (for
 * a constructor registered by machine_new_class) as its metatable. */
Machine *machine_new_userdata(lua_State *L, size_t size, const MachineKind *kind);

/* Pushes a copy of the Machine at argument 1; what the kind adds is zero, for the caller to copy.
 */
Machine *machine_new_copy(lua_State *L, size_t size);

/* Pushes a library table: `new` and the functions of `functions`, and `transitions`, a list of
 * {from=, to=, on=}. The metatable gets `methods`, those above, and `gc` as __gc. */
void machine_new_class(lua_State *L, const MachineKind *kind, const luaL_Reg *methods,
                       const luaL_Reg *functions, lua_CFunction gc);

/* Argument 1, which must be a userdata of the class in upvalue 1. */
Machine *machine_self(lua_State *L);

/* Argument `arg`, which must be a userdata of the class in upvalue 1. */
Machine *machine_check(lua_State *L, int arg);

/* The number that the id at `arg` stands for in the machine at argument 1; MACHINE_NO_NUMBER where
 * it is not an id that the machine could have made. */
uint64_t machine_check_id(lua_State *L, int arg);

/* Takes the call id at `id_arg` (a string) as the one that starts the machine `m` at argument 1;
 * raises unless it is idle. Status becomes `to`, and call 0 (`kind`, `subject`) is open. */
void machine_start_with(lua_State *L, Machine *m, int id_arg, uint8_t to, uint32_t kind,
                        uint32_t subject, double now);

/* Pushes "n7" and the like: what lua_pushfstring does, in a fraction of the time. */
void machine_push_numbered(lua_State *L, char letter, uint64_t number);

/* Pushes the id of a call of the machine at argument 1. */
void machine_push_id(lua_State *L, const Machine *m, uint64_t number);

/* Opens a call of the machine at argument 1 and pushes its id. */
void machine_push_open(lua_State *L, Machine *m, uint32_t kind, uint32_t subject);

/* Pushes a time or another number that may be whole: 5 rather than 5.0; nil for NaN. */
void machine_push_number(lua_State *L, double value);

/* Pushes a score, always a float; nil for NaN. */
void machine_push_score(lua_State *L, double value);

/* ---- shared with l_machine_map.c ---- */

#define MACHINE_NUMBER_LIMIT ((lua_Integer)1 << 53) /* what JSON carries exactly */

/* The N of an id that a machine would make itself: "c", then N >= 1 without leading zeros; else
 * MACHINE_NO_NUMBER. */
uint64_t machine_number_of(const char *id);

/* The index of the string at stack position `arg` among the names; their count if it is none. */
uint32_t machine_index_of(lua_State *L, int arg, const char *const *names);

int machine_save(lua_State *L);
int machine_load(lua_State *L);

#endif
