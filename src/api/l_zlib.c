/*
 * l_zlib.c -- ponder.core.zlib: compresses what is sent to Redis. Described in
 * lua/ponder/meta/zlib.lua.
 */
#include <zlib.h>

#include "api/api.h"

enum {
    LEVEL = 1, /* shrinks JSON to a tenth; higher levels take three times as long for little */
    HEAD = 4,  /* bytes that precede the compressed ones: the size of the text */
};

/* compress(text) -> bytes */
static int zlib_l_compress(lua_State *L)
{
    luaL_Buffer b;
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    luaL_argcheck(L, size < (size_t)1 << 31, 1, "too long");
    uLongf packed = compressBound(size);
    unsigned char *out = (unsigned char *)luaL_buffinitsize(L, &b, packed + HEAD);
    for (int i = 0; i < HEAD; i++)
        out[i] = (unsigned char)(size >> 8 * i);
    if (compress2(out + HEAD, &packed, (const unsigned char *)text, size, LEVEL) != Z_OK)
        return luaL_error(L, "not enough memory to compress %d bytes", (int)size);
    luaL_pushresultsize(&b, packed + HEAD);
    return 1;
}

/* decompress(bytes, max) -> text | nil, message */
static int zlib_l_decompress(lua_State *L)
{
    luaL_Buffer b;
    size_t size, length = 0;
    const unsigned char *bytes = (const unsigned char *)luaL_checklstring(L, 1, &size);
    lua_Integer max = luaL_checkinteger(L, 2);
    for (size_t i = 0; i < HEAD && size >= HEAD; i++)
        length |= (size_t)bytes[i] << 8 * i;
    if (size < HEAD || (lua_Integer)length > max)
        return api_fail(L, lua_pushfstring(L, "not compressed, or longer than %I bytes", max),
                        NULL);
    uLongf unpacked = length;
    char *out = luaL_buffinitsize(L, &b, length + 1); /* zlib wants a byte even for an empty text */
    int error = uncompress((unsigned char *)out, &unpacked, bytes + HEAD, size - HEAD);
    if (error != Z_OK || unpacked != length)
        return api_fail(L, "the compressed data is damaged", NULL);
    luaL_pushresultsize(&b, unpacked);
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_zlib)
{
    static const luaL_Reg functions[] = {
        {"compress", zlib_l_compress}, {"decompress", zlib_l_decompress}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
