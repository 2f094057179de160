/*
 * l_search.h -- a search as Lua sees it: what l_search.c and search_*.c share.
 *
 * The userdata's user values are the states (a list of tables of SEARCH_CHUNK_SIZE states: a tree
 * that grows copies nothing) and the metatable of the node tables that callbacks get.
 */
#ifndef PONDER_API_L_SEARCH_H
#define PONDER_API_L_SEARCH_H

#include "api/api.h"
#include "core/search.h"

#define CORE_TYPE "ponder.core.search"

/* What the loop does next; see search_loop.c. */
typedef enum Phase {
    TAKE,
    TAKEN,
    STOPPED,
    EXPANDED,
    REGISTER,
    KEYED,
    ROOT_KEYED,
    SCORE,
    SCORED,
    SCORED_ALL,
    TESTED,
    NEXT_CHILD,
    ENDED
} Phase;

typedef struct Core {
    Search search;
    const char *calling; /* the callback that runs or has just returned; NULL for our own errors */
    uint32_t calling_node;
    lua_Integer expansions, duplicates;

    /* the loop's own */
    bool running; /* from its beginning until it has ended: nothing else may change the tree */
    Phase phase;
    const char *outcome; /* set when ENDED: "over", "stop", "max_nodes", "max_duration", "failed" */
    lua_Integer k;
    uint32_t node;    /* the node taken up */
    uint32_t child;   /* the node being scored or tested */
    lua_Integer next; /* of the list that expand returned: the next state, and the last one used */
    lua_Integer last;
    bool full;       /* max_nodes: a child was refused */
    double deadline; /* by the caller's clock, in seconds; infinity if there is none */
    bool expand_wants_node, evaluate_wants_node, is_terminal_wants_node;
    bool stopped_before;                            /* by a Ctrl-C that the script has caught */
    bool has_stop, has_key, has_events, scores_all; /* which callbacks there are */
    uint32_t chunk, parent_chunk; /* which tables of states are in CHUNK and PARENT */
} Core;

/* Where a chunk keeps the state of a node. */
static inline lua_Integer core_slot(uint32_t id)
{
    return (lua_Integer)(id & (SEARCH_CHUNK_SIZE - 1)) + 1;
}

enum { CORE_STATES = 1, CORE_NODE_META = 2 }; /* user values */

/* Pushes a user value of the search at `index`: a table, unless a script has meddled with it. */
void core_push_table(lua_State *L, int index, int which);

/* The state of a node, on top of the stack; `states` is the index of the list of states. */
void core_push_state(lua_State *L, int states, uint32_t id);

/* Pushes the table that holds the states of `id` and its neighbours. */
void core_push_chunk(lua_State *L, int states, uint32_t id);

/* {id, parent_id, state, depth, score, terminal}; `path` is made when it is read. */
void core_push_node(lua_State *L, const Core *core, int states, int meta, uint32_t id);

/* The states from the root to a node, as a new list. */
void core_push_path(lua_State *L, const Core *core, int states, uint32_t id);

/* __index of a node table: makes `path`. Upvalue 1 is the search. */
int core_node_index(lua_State *L);

/* Checks of what the callback `calling` returned at a stack index; they raise. */
double core_check_score(lua_State *L, Core *core, int index);
bool core_check_boolean(lua_State *L, Core *core, int index);
lua_Integer core_check_list(lua_State *L, Core *core, const char *expected, int index,
                            lua_Integer most); /* of which so many items are used */

/* Whether the key at `index` is new; it counts as in the tree from now on. */
bool core_note_key(lua_State *L, Core *core, int keys, int index);

/* Checks the list of scores at `index` and gives them to the nodes `first` to the last. */
void core_score_all(lua_State *L, Core *core, int index, uint32_t first, uint32_t last);

/* The ids of the nodes that were pruned since the last call, as a list. */
void core_push_pruned(lua_State *L, Core *core);

/* Raises without a position: the line of Lua that drives the search says nothing to a script. */
int core_raise(lua_State *L, const char *format, ...);

int core_no_memory(lua_State *L, Core *core);
int core_list_hole(lua_State *L, Core *core, lua_Integer at);

/* core:run(callbacks) -> outcome, or "failed", message, code. In search_loop.c. */
int core_run(lua_State *L);

#endif
