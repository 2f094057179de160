/*
 * l_search.h -- a search as Lua sees it: what l_search.c and search_*.c share.
 *
 * The userdata's user values are the states (a list of tables of SEARCH_CHUNK_SIZE states: a tree
 * that grows copies nothing), the metatable of the node tables that callbacks get, the callbacks,
 * and what the concurrent driver and `reflect` keep.
 */
#ifndef PONDER_API_L_SEARCH_H
#define PONDER_API_L_SEARCH_H

#include "api/api.h"
#include "core/search.h"

#define CORE_TYPE "ponder.core.search"

enum {
    CORE_STATES = 1,
    CORE_NODE_META,
    CORE_CALLBACKS,   /* by SearchCall, from 1 */
    CORE_WORK,        /* of the concurrent driver: by ticket its list, and the current state */
    CORE_MEMORY,      /* what reflect has returned: the newest, as of this round */
    CORE_REFLECTIONS, /* of this round, by node */
    CORE_VALUES = CORE_REFLECTIONS
};

typedef struct Core {
    Search search;
    SearchAsk ask; /* the unit at work; SEARCH_WAIT or SEARCH_DONE: no callback is to blame */
    bool wants_node[SEARCH_DONE]; /* whether a callback has a parameter for the node */
    lua_Integer memory_size;
    uint64_t memory_round; /* in which the memory was last brought up to date */
    uint32_t reflected;    /* nodes below it had their part in the memory */

    VEC(SearchAsk) units; /* of the concurrent driver, in flight; SEARCH_DONE: a free slot */

    /* the loop's own (search_loop.c) */
    bool running;                   /* until it ends nothing else may change the tree */
    bool started;                   /* by either driver: a search runs once */
    double least_score, most_score; /* what evaluate may return: 0 and 1 for beta posteriors */
    double deadline;              /* by the caller's clock, in seconds; infinity if there is none */
    bool stopped_before;          /* by a Ctrl-C that the script has caught */
    uint32_t chunk, parent_chunk; /* which tables of states are in CHUNK and PARENT */
} Core;

/* The index of a node's state in its chunk. */
static inline lua_Integer core_slot(uint32_t id)
{
    return (lua_Integer)(id & (SEARCH_CHUNK_SIZE - 1)) + 1;
}

/* ---- nodes (search_nodes.c) ---- */

/* Pushes a user value of the search at `index`, which must be a table. */
void core_push_table(lua_State *L, int index, int which);

/* Pushes the state of a node; `states` is the index of the list of states. */
void core_push_state(lua_State *L, int states, uint32_t id);

/* Pushes the table that holds the states of `id` and its neighbours. */
void core_push_chunk(lua_State *L, int states, uint32_t id);

/* The same, into the stack slot `slot`, unless it is already there, as `loaded` says. */
static inline void core_load_chunk(lua_State *L, int states, int slot, uint32_t *loaded,
                                   uint32_t id)
{
    if (id >> SEARCH_CHUNK_BITS == *loaded)
        return;
    core_push_chunk(L, states, id);
    lua_replace(L, slot);
    *loaded = id >> SEARCH_CHUNK_BITS;
}

/* Drops the states of freed nodes; true: a whole chunk was freed. */
bool core_drop_states(lua_State *L, Core *core, int states);

/* A node of the search at `self` as a table, see SearchNode in lua/ponder/search.lua; with a
 * ticket, as its expand finds it. `terminal_known`: is_terminal was asked, though not all callbacks
 * have been. `path` and `inspirations` are made when they are read. */
void core_push_node(lua_State *L, const Core *core, int self, uint32_t id,
                    const SearchTicket *ticket, bool terminal_known);

/* The states from the root to a node, as a new list. */
void core_push_path(lua_State *L, const Core *core, int states, uint32_t id);

/* __index of a node table: makes `path`, `inspirations`. Upvalue 1 is the search. */
int core_node_index(lua_State *L);

/* Pushes a list of ids. */
void core_push_ids(lua_State *L, const uint32_t *ids, size_t count);

/* ---- checks of callbacks' results, which raise (search_check.c) ---- */

static inline bool core_in_range(const Core *core, double score) /* false: NaN */
{
    return score >= core->least_score && score <= core->most_score;
}

double core_check_score(lua_State *L, Core *core, int index);
bool core_check_boolean(lua_State *L, Core *core, int index);
lua_Integer core_check_list(lua_State *L, Core *core, const char *expected, int index,
                            lua_Integer used); /* number of items used */
void core_check_key(lua_State *L, Core *core, int index, SearchKey *key, uint64_t *number);
int core_refuse_result(lua_State *L, Core *core, const char *expected, const char *got);
int core_wrong_result(lua_State *L, Core *core, const char *expected, int index);
int core_list_hole(lua_State *L, Core *core, lua_Integer at);

/* Raises without a position: the line of the library's driver would not help a script. */
int core_raise(lua_State *L, Core *core, const char *format, ...);
int core_no_memory(lua_State *L, Core *core);

/* ---- callbacks (search_calls.c): all are about core->ask ---- */

/* The name of the callback, as the user gave it; NULL: none. */
const char *core_call_name(const Core *core, SearchCall call);

/* Reads the callbacks from the table at `index`. */
void core_read_callbacks(lua_State *L, Core *core, int self, int index);

/* Pushes the arguments of the callback; returns how many. COST, KEY: the state at `state`. */
int core_push_arguments(lua_State *L, Core *core, int self, int state);

/* Pushes the number of children to ask expand for; nil: all. */
void core_push_width(lua_State *L, const Core *core);

/* Checks what the callback returned and tells the engine; it raises. An expansion's list is at
 * `index`, and stays there. */
void core_tell(lua_State *L, Core *core, int self, int index);

/* COST, KEY and MAKE: copies their state from the list at `list` to the slot `state`, unless it is
 * already there. */
void core_fetch_state(lua_State *L, Core *core, int list, int state);

/* MAKE: makes children (search_make) and stores their states: those from the list at `list`, or the
 * one at `state`. `states` and `chunk`: as core_load_chunk. */
void core_make_children(lua_State *L, Core *core, int list, int state, int states, int chunk);

/* At the beginning of a round: adds new results of reflect to the memory. */
void core_update_memory(lua_State *L, Core *core, int self);

/* The options in the table at 1, which Lua has checked (lua/ponder/searches.lua). */
SearchOptions search_read_options(lua_State *L);

/* ---- the search that is argument 1; one that is not running (l_search.c) ---- */

Core *core_check(lua_State *L);
Core *core_check_idle(lua_State *L);

/* Pops a state and stores it as that of a node. */
void core_store_state(lua_State *L, int states, uint32_t id);

/* Methods of the concurrent driver: see search_units.c. */
int core_begin(lua_State *L);
int core_ask(lua_State *L);
int core_callback(lua_State *L);
int core_tell_result(lua_State *L);
int core_fail(lua_State *L);
int core_get_outcome(lua_State *L);
int core_finish(lua_State *L);

/* Starts a search for either driver: the callbacks are argument 2. */
Core *core_start(lua_State *L, bool one_at_a_time);

/* core:run(callbacks) -> outcome, or "failed", message, code. In search_loop.c. */
int core_run(lua_State *L);
const char *core_outcome(const Core *core);

/* Whether the callback reported a failure: nil, message; the first of its results is at `index`. */
static inline bool core_is_failure(lua_State *L, int index)
{
    return lua_isnil(L, index) && lua_type(L, index + 1) == LUA_TSTRING;
}

#endif
