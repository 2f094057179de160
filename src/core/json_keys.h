/* json_keys.h -- sorts the keys of a JSON object. */
#ifndef PONDER_CORE_JSON_KEYS_H
#define PONDER_CORE_JSON_KEYS_H

#include <stddef.h>
#include <stdint.h>

typedef struct JsonKey {
    uint64_t prefix; /* the first 8 bytes as a number, to compare in one step */
    const char *text;
    size_t length;
    size_t position; /* for the caller */
} JsonKey;

JsonKey json_key(const char *text, size_t length, size_t position);

/* Bytewise, a prefix before the longer key. */
void json_sort_keys(JsonKey *keys, size_t n);

#endif
