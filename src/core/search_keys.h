/*
 * search_keys.h -- a hash table of the keys of the states in a tree.
 *
 * A slot is 8 bytes: 32 bits of the hash and the position of the key. The table grows in place, by
 * half when three quarters are in use: a key takes 11 to 16 bytes of slots, and 4 beside its bytes.
 * With `has_nodes`, 4 more hold a node with that key.
 */
#ifndef PONDER_CORE_SEARCH_KEYS_H
#define PONDER_CORE_SEARCH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/vec.h"

typedef enum SearchKeyType { KEY_STRING, KEY_INTEGER, KEY_FLOAT } SearchKeyType;

typedef struct SearchKey {
    SearchKeyType type;
    const void *bytes; /* a number has 8 */
    size_t size;
} SearchKey;

typedef struct KeySlot {
    uint32_t hash;
    uint32_t entry; /* index in `words`, plus 1; 0: the slot is free */
} KeySlot;

typedef struct SearchKeys {
    KeySlot *slots;
    size_t capacity, count;
    struct {
        VEC_OF(uint32_t);
    } words; /* of each key: its head, its node, its bytes */
    bool has_nodes;
} SearchKeys;

void search_keys_free(SearchKeys *keys, const Alloc *alloc);

typedef enum KeyFound { KEY_NEW, KEY_KNOWN, KEY_NO_MEMORY } KeyFound;

/* Looks the key up and adds it if it is new; *entry is its index. */
KeyFound search_keys_add(SearchKeys *keys, const Alloc *alloc, const SearchKey *key,
                         uint32_t *entry);

/* The node of an entry; UINT32_MAX in a new one. */
static inline uint32_t *search_keys_node(const SearchKeys *keys, uint32_t entry)
{
    return &keys->words.items[entry + 1];
}

#endif
