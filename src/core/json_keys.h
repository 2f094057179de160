/*
 * json_keys.h -- the keys of a JSON object, in order.
 */
#ifndef PONDER_CORE_JSON_KEYS_H
#define PONDER_CORE_JSON_KEYS_H

#include <stddef.h>
#include <stdint.h>

typedef struct JsonKey {
    uint64_t prefix; /* the first 8 bytes as a number, to compare in one step */
    const char *text;
    size_t length;
    size_t position; /* the caller's own: where the key came from */
} JsonKey;

JsonKey json_key(const char *text, size_t length, size_t position);

/* Bytewise, a key before those it begins. Takes no memory and has no bad case. */
void json_sort_keys(JsonKey *keys, size_t n);

#endif
