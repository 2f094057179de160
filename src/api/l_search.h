/*
 * l_search.h -- a search as Lua sees it: what l_search.c (a search and its tree), search_program.c
 * (the callbacks), search_results.c and search_lua.c (policies in Lua) share.
 *
 * The userdata's user values are the states, the keys, the metatable of the node tables that
 * callbacks get, and the callbacks.
 */
#ifndef PONDER_API_L_SEARCH_H
#define PONDER_API_L_SEARCH_H

#include "api/api.h"
#include "core/search_policy.h"

#define CORE_TYPE    "ponder.core.search"
#define PROGRAM_TYPE "ponder.core.search.program"

enum {
    CORE_STATES = 1,
    CORE_KEYS, /* key -> id of the node that has it (astar, idastar: of the cheapest) */
    CORE_NODE_META,
    CORE_CALLBACKS, /* by Callback, from 1 */
    CORE_TICKETS,   /* of a policy in Lua: its list of this round */
    CORE_VALUES = CORE_TICKETS
};

/* The first are called with states, as users give them; the others by functions of
 * lua/ponder/think/search/callbacks.lua, which get ids. */
typedef enum Callback {
    CALL_EXPAND,
    CALL_EVALUATE,
    CALL_IS_TERMINAL,
    CALL_SIMULATE,
    CALL_COST,
    CALL_KEY,
    CALL_STOP,         /* (id) -> boolean */
    CALL_EVALUATE_ALL, /* (first, last): sets scores */
    CALL_PRIOR,        /* (first, last, parent): sets priors */
    CALL_SPENT,        /* () -> number from 0 to 1 */
    CALL_OWN,          /* (id): those of a policy in Lua */
    CALL_REFLECT,      /* (id) */
    CALL_EXPANDED,     /* events: (id, number of children) */
    CALL_SCORED,       /* (id) */
    CALL_PRUNED,       /* (ids) */
    CALL_REFUSE,       /* (callback, expected, value, id): raises */
    CALL_ADD_FIELDS,   /* (node, id, ticket): a policy in Lua adds its own fields */
    CALL_ORDER,        /* (ticket): the concurrent driver waits, see search_program.c */
    CALL_MADE,         /* also a policy in Lua, which notes the fields of the children */
    CALL_CHILDREN,
    CALL_TURN,
    CALL_END_ROUND, /* (): before the back-up, which may free nodes */
    CALL_SELECT,    /* (round, tickets so far) -> list, whether max_iterations left none of it */
    CALL_BACK_UP,   /* (list, tickets so far) -> ids that are pruned, or nil */
    CALL_REFUSE_TICKET, /* (i, what is wrong, value): raises */
    CALL_NONE
} Callback;

/* Where the work on a ticket is: see search_program.c. */
typedef struct Program {
    uint8_t step, until; /* until: the step before which it returns */
    uint8_t calling;     /* Callback: the one to blame for an error; CALL_NONE: none */
    bool runs_all;       /* the whole search, one ticket after the other */
    bool asked_stop;
    bool made;   /* its children */
    bool failed; /* a callback did, before the ticket's turn */
    uint32_t ticket;
    uint32_t child; /* the new node that is scored, or counts next */
    uint32_t node;  /* that the callback is about */
    uint32_t chunk; /* whose states are at CHUNK of the stack */
} Program;

typedef struct Core {
    Search search;
    Program program; /* that runs all, or selects rounds */
    bool asks[CALL_NONE], wants_node[CALL_NONE];
    bool started;        /* a search runs once */
    bool running;        /* core:run: nothing else may change the tree */
    bool is_beta;        /* scores must be from 0 to 1 */
    bool repeats;        /* a policy in Lua may expand a node again */
    bool stopped_before; /* by a Ctrl-C that the script has caught */
} Core;

/* States are in a table of lists, one for each chunk of nodes: its index there. */
static inline lua_Integer core_slot(uint32_t id)
{
    return (id & (SEARCH_CHUNK - 1)) + 1;
}

/* Pushes a node's state; `states` is the index of that table. */
static inline void core_get_state(lua_State *L, int states, uint32_t id)
{
    lua_rawgeti(L, states, (id >> SEARCH_CHUNK_BITS) + 1);
    lua_rawgeti(L, -1, core_slot(id));
    lua_replace(L, -2);
}

extern const char *const core_callback_names[];
extern const SearchPolicy search_lua;

/* The search that is argument 1; one that has begun. */
Core *core_check(lua_State *L);
Core *core_check_started(lua_State *L);

int core_no_memory(lua_State *L);

/* Pushes a user value of the search at `index`, which must be a table. */
void core_push_table(lua_State *L, int index, int which);

void core_push_state(lua_State *L, int self, uint32_t id);

/* A node of the search at `self` as a table, see SearchNode in lua/ponder/search.lua; for the
 * expand of a ticket (from 1; 0: none). `terminal_known`: is_terminal was asked, though not all
 * callbacks have been. `path` is made when it is read. */
void core_push_node(lua_State *L, const Core *core, int self, uint32_t id, lua_Integer ticket,
                    bool terminal_known);

/* ---- search_lua.c ---- */

SearchStatus core_select_in_lua(lua_State *L, Core *core);
void core_back_up_in_lua(lua_State *L, Core *core);
void core_push_ticket(lua_State *L, int self, uint32_t ticket);
void core_add_duplicate(lua_State *L, uint32_t ticket, SearchTicket *t, lua_Integer place,
                        uint32_t holder);
uint32_t core_expansions(const Search *s, uint32_t id, lua_Integer ticket);
uint32_t core_check_id(lua_State *L, const Core *core);
void core_add_fields(lua_State *L, int core);
int core_view(lua_State *L);

/* ---- search_results.c: what callbacks return, for search_program.c ---- */

/* The stack. */
enum {
    SELF = 1,
    PROGRAM, /* a userdata, unless the program runs all */
    STATES,
    CALLBACKS,
    KEYS,
    CHUNK,  /* of the states: a list that was used last */
    LIST,   /* what expand returned */
    SCORES, /* its second result, or nil */
    STATE,  /* the next child's */
    TOP = STATE,
    MESSAGE = LIST, /* once a callback has failed */
    CODE = SCORES
};

/* The index of the first of a callback's three results. */
#define RESULT (-3)

/* Makes CHUNK the list for the state of the node `id`. */
void program_load_chunk(lua_State *L, Program *p, uint32_t id);

static inline void program_use_chunk(lua_State *L, Program *p, uint32_t id)
{
    if (p->chunk != id >> SEARCH_CHUNK_BITS)
        program_load_chunk(L, p, id);
}

void program_refuse(lua_State *L, Program *p, const char *expected, int index);
double program_take_score(lua_State *L, const Core *core, Program *p, int index);
void program_take_list(lua_State *L, Program *p, SearchTicket *t);
void program_fetch_state(lua_State *L, Program *p, lua_Integer place);
void program_make_children(lua_State *L, Core *core, Program *p, SearchTicket *t, bool one);
bool program_take_key(lua_State *L, Core *core, Program *p, SearchTicket *t);

/* Methods in search_program.c. */
int core_run(lua_State *L);
int core_work(lua_State *L);
int core_next_round(lua_State *L);
int core_new_program(lua_State *L);

#endif
