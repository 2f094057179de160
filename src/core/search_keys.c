/*
 * search_keys.c -- see search_keys.h. Ordered linear probing: a key's home slot rises with its
 * hash, and slots are sorted by hash. So a missing key is detected after a few slots, and the table
 * grows in place, front to back. Runs do not wrap around: LAST_SLOTS after the last home take
 * overflow.
 */
#include "core/search_keys.h"

#include <string.h>

enum { FIRST_SLOTS = 64, LAST_SLOTS = 32, TYPE_BITS = 2 };

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
    for (; left > sizeof word; left -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = mix((h ^ word) * 0xBF58476D1CE4E5B9u);
    }
    word = 0;
    if (key->size >= sizeof word) /* the last word may overlap the one before */
        memcpy(&word, at + left - sizeof word, sizeof word);
    else if (left > 0)
        memcpy(&word, at, left);
    return mix((h ^ word) * 0x94D049BB133111EBu);
}

static size_t home_of(uint32_t hash, size_t capacity)
{
    return (size_t)((uint64_t)hash * (capacity - LAST_SLOTS) >> 32);
}

void search_keys_free(SearchKeys *keys, const Alloc *alloc)
{
    alloc_free(alloc, keys->slots, keys->capacity * sizeof *keys->slots);
    vec_free(&keys->words, alloc);
    keys->slots = NULL;
    keys->capacity = keys->count = 0;
}

/* Moves the keys to the end of a table 1.5 times as large, then each to its slot. */
static bool grow(SearchKeys *keys, const Alloc *alloc)
{
    size_t before = keys->capacity, capacity = before + before / 2 + FIRST_SLOTS;
    size_t size = sizeof(KeySlot), from = capacity, at = 0;
    KeySlot *slots = alloc_resize(alloc, keys->slots, before * size, capacity * size);
    if (slots == NULL)
        return false;
    keys->slots = slots;
    keys->capacity = capacity;
    for (size_t i = before; i-- > 0;)
        if (slots[i].entry != 0)
            slots[--from] = slots[i];
    for (; from < capacity; from++) {
        KeySlot slot = slots[from];
        size_t home = home_of(slot.hash, capacity);
        while (at < home)
            slots[at++].entry = 0;
        slots[at++] = slot;
    }
    memset(slots + at, 0, (capacity - at) * size);
    return true;
}

static bool is_key(const SearchKeys *keys, uint32_t entry, const SearchKey *key)
{
    const uint32_t *words = &keys->words.items[entry];
    return words[0] == ((uint32_t)key->size << TYPE_BITS | key->type) &&
           memcmp(words + 1 + keys->has_nodes, key->bytes, key->size) == 0;
}

/* Appends the key; false: no memory, or more than 4 GB of words. */
static bool append(SearchKeys *keys, const Alloc *alloc, const SearchKey *key, uint32_t *entry)
{
    size_t words = 1 + keys->has_nodes + (key->size + 3) / 4;
    if (key->size > UINT32_MAX >> TYPE_BITS || keys->words.count > UINT32_MAX - words - 1 ||
        !vec_reserve(&keys->words, alloc, words))
        return false;
    *entry = (uint32_t)keys->words.count;
    uint32_t *at = &keys->words.items[*entry];
    at[words - 1] = 0;
    at[0] = (uint32_t)key->size << TYPE_BITS | key->type;
    memcpy(at + 1 + keys->has_nodes, key->bytes, key->size);
    keys->words.count += words;
    if (keys->has_nodes)
        at[1] = UINT32_MAX;
    return true;
}

/* The slot where a key of that hash is, or would go. */
static size_t find(const SearchKeys *keys, uint32_t hash, const SearchKey *key, uint32_t *entry)
{
    const KeySlot *slots = keys->slots;
    size_t at = home_of(hash, keys->capacity);
    *entry = 0;
    while (slots[at].entry != 0 && slots[at].hash < hash)
        at++;
    for (; slots[at].entry != 0 && slots[at].hash == hash; at++)
        if (is_key(keys, slots[at].entry - 1, key)) {
            *entry = slots[at].entry;
            break;
        }
    return at;
}

KeyFound search_keys_add(SearchKeys *keys, const Alloc *alloc, const SearchKey *key,
                         uint32_t *entry)
{
    /* The last slots stay free, so that every run ends before them. */
    if ((keys->count * 4 >= keys->capacity * 3 ||
         keys->slots[keys->capacity - LAST_SLOTS / 2].entry != 0) &&
        !grow(keys, alloc))
        return KEY_NO_MEMORY;
    uint32_t hash = (uint32_t)(hash_of(key) >> 32), found;
    size_t at = find(keys, hash, key, &found);
    if (found != 0) {
        *entry = found - 1;
        return KEY_KNOWN;
    }
    if (!append(keys, alloc, key, entry))
        return KEY_NO_MEMORY;
    for (KeySlot slot = {hash, *entry + 1}, next; slot.entry != 0; slot = next) {
        next = keys->slots[at];
        keys->slots[at++] = slot;
    }
    keys->count++;
    return KEY_NEW;
}
