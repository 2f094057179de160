/*
 * json_keys.c -- sorts the keys of a JSON object.
 */
#include "core/json_keys.h"

#include <stdbool.h>
#include <string.h>

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

static void sift_down(JsonKey *keys, size_t i, size_t n)
{
    JsonKey key = keys[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && key_less(&keys[child], &keys[child + 1]))
            child++;
        if (!key_less(&key, &keys[child]))
            break;
        keys[i] = keys[child];
    }
    keys[i] = key;
}

/* Heapsort; insertion is faster for the few keys of an ordinary object. */
void json_sort_keys(JsonKey *keys, size_t n)
{
    if (n <= 16) {
        sort_few(keys, n);
        return;
    }
    for (size_t i = n / 2; i-- > 0;)
        sift_down(keys, i, n);
    for (size_t last = n - 1; last > 0; last--) {
        JsonKey greatest = keys[0];
        keys[0] = keys[last];
        keys[last] = greatest;
        sift_down(keys, 0, last);
    }
}
