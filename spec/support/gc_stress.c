/*
 * gc_stress.c -- a Lua module for specs: forced garbage collection.
 *
 *   install()      from now on full collections run while objects are created; child processes
 *                  do not load the sanitizers' libraries (LD_PRELOAD)
 *   collections()  how many there were
 *
 * An allocator that fails makes Lua collect all garbage and try again. Here the creation of a Lua
 * object fails once, now and then, wherever it happens: also within a C function that has not
 * anchored what it has just made. The more blocks are live, the longer a collection takes, and the
 * fewer there are: see LIVE_BETWEEN. Their timing depends on no clock. C code's own blocks
 * (alloc.h), which nothing would try again, never fail.
 */
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdlib.h>

int luaopen_gc_stress(lua_State *L);

#define OBJECTS_BETWEEN 7 /* at least */
#define LIVE_BETWEEN    8 /* a collection for each so many live blocks */

typedef struct Stress {
    lua_Alloc real;
    void *real_ud;
    lua_Integer live; /* blocks */
    lua_Integer wait; /* objects until the next collection */
    lua_Integer collections;
    unsigned draws;
    bool collecting;
} Stress;

static Stress stress;

/* From half to one and a half of the mean, so that no pattern of allocations is missed. */
static lua_Integer draw_wait(Stress *s)
{
    lua_Integer mean = s->live / LIVE_BETWEEN;
    s->draws = s->draws * 1664525U + 1013904223U;
    return OBJECTS_BETWEEN + mean / 2 + (lua_Integer)(s->draws >> 8) % (mean + 1);
}

static void *stress_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    Stress *s = ud;
    bool new_object = ptr == NULL && osize != 0; /* Lua passes the kind of object in osize */
    if (new_object && s->collecting) {           /* Lua tries again */
        s->collecting = false;
        s->wait = draw_wait(s);
    } else if (new_object && --s->wait <= 0) {
        s->collecting = true;
        s->collections++;
        return NULL;
    }
    s->live += (ptr == NULL && nsize != 0) - (ptr != NULL && nsize == 0);
    return s->real(s->real_ud, ptr, osize, nsize);
}

static int stress_install(lua_State *L)
{
    if (stress.real != NULL)
        return luaL_error(L, "gc_stress: installed already");
    stress.real = lua_getallocf(L, &stress.real_ud);
    lua_setallocf(L, stress_alloc, &stress);
    unsetenv("LD_PRELOAD");
    return 0;
}

static int stress_collections(lua_State *L)
{
    lua_pushinteger(L, stress.collections);
    return 1;
}

int luaopen_gc_stress(lua_State *L)
{
    static const luaL_Reg FUNCTIONS[] = {
        {"install", stress_install},
        {"collections", stress_collections},
        {NULL, NULL},
    };
    luaL_newlib(L, FUNCTIONS);
    return 1;
}
