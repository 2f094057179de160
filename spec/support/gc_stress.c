/*
 * gc_stress.c -- a Lua module for specs: forced garbage collection.
 *
 *   install()      from now on full collections run in the midst of creating objects
 *   collections()  how many there were
 *
 * An allocator that fails makes Lua collect all garbage and ask again. Here the creation of a Lua
 * object fails once, now and then, wherever it happens: also within a C function that has not
 * anchored what it has just made. About half of the time goes to collections. C code's own blocks
 * (alloc.h), which nobody would ask for again, never fail.
 */
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <time.h>

int luaopen_gc_stress(lua_State *L);

#define OBJECTS_BETWEEN 7 /* at least; a prime, so that no pattern of allocations is missed */

typedef struct Stress {
    lua_Alloc real;
    void *real_ud;
    lua_Integer objects;
    lua_Integer collections;
    bool collecting;
    double began, ended; /* the latest collection, in seconds */
} Stress;

static Stress stress;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *stress_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    Stress *s = ud;
    bool new_object = ptr == NULL && osize != 0; /* Lua passes the kind of object in osize */
    if (new_object && s->collecting) {           /* Lua asks again */
        s->collecting = false;
        s->ended = now();
    } else if (new_object && ++s->objects % OBJECTS_BETWEEN == 0) {
        double took = s->ended - s->began, time = now();
        if (time - s->ended >= took) {
            s->collecting = true;
            s->began = time;
            s->collections++;
            return NULL;
        }
    }
    return s->real(s->real_ud, ptr, osize, nsize);
}

static int stress_install(lua_State *L)
{
    if (stress.real != NULL)
        return luaL_error(L, "gc_stress: installed already");
    stress.real = lua_getallocf(L, &stress.real_ud);
    lua_setallocf(L, stress_alloc, &stress);
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
