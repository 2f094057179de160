/*
 * search_keys.h -- the keys of the states in a tree: a hash table of 64-bit hashes, the key
 * checked.
 *
 * A slot is 8 bytes: 32 bits of the hash and where the key is. The table grows in place, by half
 * when three quarters are in use: a key costs 11 to 16 bytes, and 4 beside itself. With `costs`, 8
 * more hold the least cost of a node with that key.
 */
#ifndef PONDER_CORE_SEARCH_KEYS_H
#define PONDER_CORE_SEARCH_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/vec.h"

typedef enum SearchKeyType { KEY_STRING, KEY_INTEGER, KEY_FLOAT } SearchKeyType;

typedef struct SearchKey {
    SearchKeyType type;
    const void *bytes; /* of a number: 8 */
    size_t size;
} SearchKey;

typedef struct KeySlot {
    uint32_t hash;
    uint32_t entry; /* in words of `words`, plus 1; 0: the slot is free */
} KeySlot;

typedef struct SearchKeys {
    KeySlot *slots;
    size_t capacity, count;
    struct {
        VEC_OF(uint32_t);
    } words; /* of each key: its head, its cost, its bytes */
    bool costs;
} SearchKeys;

void search_keys_free(SearchKeys *keys, const Alloc *alloc);

typedef enum KeyFound { KEY_NEW, KEY_KNOWN, KEY_NO_MEMORY } KeyFound;

/* Looks the key up and adds it if it is new; *entry says where it is. */
KeyFound search_keys_add(SearchKeys *keys, const Alloc *alloc, const SearchKey *key,
                         uint32_t *entry);

/* The cost of an entry. */
double search_keys_cost(const SearchKeys *keys, uint32_t entry);
void search_keys_set_cost(SearchKeys *keys, uint32_t entry, double cost);

#endif
