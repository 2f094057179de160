/* json_keys.c -- see json_keys.h. */
#include "core/json_keys.h"

#include <stdbool.h>
#include <string.h>

#include "core/heap.h"

static uint64_t prefix_of(const char *text, size_t length)
{
    uint64_t prefix = 0;
    for (size_t i = 0; i < 8; i++)
        prefix = prefix << 8 | (i < length ? (unsigned char)text[i] : 0);
    return prefix;
}

JsonKey json_key(const char *text, size_t length, size_t position)
{
    return (JsonKey){prefix_of(text, length), text, length, position};
}

static bool key_less(const JsonKey *a, const JsonKey *b)
{
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix;
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, shorter);
    return order < 0 || (order == 0 && a->length < b->length);
}

static void sort_few(JsonKey *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        JsonKey key = keys[i];
        size_t j = i;
        for (; j > 0 && key_less(&key, &keys[j - 1]); j--)
            keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

typedef struct KeyHeap {
    HEAP_OF(JsonKey);
} KeyHeap;

static bool last_before(const KeyHeap *h, JsonKey a, JsonKey b)
{
    (void)h;
    return key_less(&b, &a);
}

#define HEAP_TYPE   KeyHeap
#define HEAP_ENTRY  JsonKey
#define HEAP_BEFORE last_before
#define HEAP(name)  keys_##name
#include "core/heap.h"

/* Heapsort; insertion is faster for the few keys of an ordinary object. */
void json_sort_keys(JsonKey *keys, size_t n)
{
    if (n <= 16) {
        sort_few(keys, n);
        return;
    }
    KeyHeap heap = {.items = keys, .count = n, .capacity = n};
    keys_order(&heap);
    while (heap.count > 0) {
        JsonKey last = keys_pop(&heap);
        keys[heap.count] = last;
    }
}
