/*
 * search_keys.c -- see search_keys.h. Linear probing; a key's home rises with its hash, so the
 * slots are nearly in order of their hashes and a copy walks both tables from front to back.
 */
#include "core/search_keys.h"

#include <math.h>
#include <string.h>

enum { FIRST_SLOTS = 32, TYPE_BITS = 2 };

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0x9FB21C651E98DF25u;
    return h ^ h >> 29;
}

static uint64_t hash_of(const SearchKey *key)
{
    const unsigned char *at = key->bytes;
    uint64_t h = mix(0x9E3779B97F4A7C15u + key->type + ((uint64_t)key->size << TYPE_BITS)), word;
    size_t left = key->size;
    for (; left >= sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = mix((h ^ word) * 0xBF58476D1CE4E5B9u);
    }
    word = 0;
    if (left > 0)
        memcpy(&word, at, left);
    return mix((h ^ word) * 0x94D049BB133111EBu);
}

static size_t home_of(uint32_t hash, size_t capacity)
{
    return (size_t)((uint64_t)hash * capacity >> 32);
}

void search_keys_free(SearchKeys *keys, const Alloc *alloc)
{
    alloc_free(alloc, keys->slots, keys->capacity * sizeof *keys->slots);
    vec_free(&keys->words, alloc);
    keys->slots = NULL;
    keys->capacity = keys->count = 0;
}

static bool grow(SearchKeys *keys, const Alloc *alloc)
{
    size_t capacity = keys->capacity + keys->capacity / 4 + FIRST_SLOTS, size = sizeof(KeySlot);
    KeySlot *slots = alloc_resize(alloc, NULL, 0, capacity * size);
    if (slots == NULL)
        return false;
    memset(slots, 0, capacity * size);
    for (size_t i = 0; i < keys->capacity; i++) {
        if (keys->slots[i].entry == 0)
            continue;
        size_t at = home_of(keys->slots[i].hash, capacity);
        while (slots[at].entry != 0)
            at = at + 1 == capacity ? 0 : at + 1;
        slots[at] = keys->slots[i];
    }
    alloc_free(alloc, keys->slots, keys->capacity * size);
    keys->slots = slots;
    keys->capacity = capacity;
    return true;
}

static size_t cost_words(const SearchKeys *keys)
{
    return keys->costs ? 2 : 0;
}

static bool is_key(const SearchKeys *keys, uint32_t entry, const SearchKey *key)
{
    const uint32_t *words = &keys->words.items[entry];
    return words[0] == ((uint32_t)key->size << TYPE_BITS | key->type) &&
           memcmp(words + 1 + cost_words(keys), key->bytes, key->size) == 0;
}

/* Appends the key; false: no memory, or more than 4 GB of words. */
static bool append(SearchKeys *keys, const Alloc *alloc, const SearchKey *key, uint32_t *entry)
{
    size_t words = 1 + cost_words(keys) + (key->size + 3) / 4;
    if (key->size > UINT32_MAX >> TYPE_BITS || keys->words.count > UINT32_MAX - words - 1 ||
        !vec_reserve(&keys->words, alloc, words))
        return false;
    *entry = (uint32_t)keys->words.count;
    uint32_t *at = &keys->words.items[*entry];
    at[words - 1] = 0;
    at[0] = (uint32_t)key->size << TYPE_BITS | key->type;
    memcpy(at + 1 + cost_words(keys), key->bytes, key->size);
    keys->words.count += words;
    if (keys->costs)
        search_keys_set_cost(keys, *entry, INFINITY);
    return true;
}

KeyFound search_keys_add(SearchKeys *keys, const Alloc *alloc, const SearchKey *key,
                         uint32_t *entry)
{
    if (keys->count * 10 >= keys->capacity * 9 && !grow(keys, alloc))
        return KEY_NO_MEMORY;
    uint64_t hash = hash_of(key);
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t at = home_of(tag, keys->capacity);
    for (; keys->slots[at].entry != 0; at = at + 1 == keys->capacity ? 0 : at + 1) {
        *entry = keys->slots[at].entry - 1;
        if (keys->slots[at].hash == tag && is_key(keys, *entry, key))
            return KEY_KNOWN;
    }
    if (!append(keys, alloc, key, entry))
        return KEY_NO_MEMORY;
    keys->slots[at] = (KeySlot){tag, *entry + 1};
    keys->count++;
    return KEY_NEW;
}

double search_keys_cost(const SearchKeys *keys, uint32_t entry)
{
    double cost;
    memcpy(&cost, &keys->words.items[entry + 1], sizeof cost);
    return cost;
}

void search_keys_set_cost(SearchKeys *keys, uint32_t entry, double cost)
{
    memcpy(&keys->words.items[entry + 1], &cost, sizeof cost);
}
