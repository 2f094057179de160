/*
 * search_program.h -- what search_program.c (the program of a ticket) and search_results.c (what
 * its callbacks return) share.
 */
#ifndef PONDER_API_SEARCH_PROGRAM_H
#define PONDER_API_SEARCH_PROGRAM_H

#include "api/l_search.h"

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
    TOP = STATE
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

#endif
