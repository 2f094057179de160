/* json_keys.c -- see json_keys.h. */
#include "core/json_keys.h"

#include <stdbool.h>
#include <stdlib.h>
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

static int compare(const void *a, const void *b)
{
    const JsonKey *x = a, *y = b;
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static void sort_few(JsonKey *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        JsonKey key = keys[i];
        size_t j = i;
        for (; j > 0 && compare(&key, &keys[j - 1]) < 0; j--)
            keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

/* Insertion is faster for the few keys of an ordinary object. */
void json_sort_keys(JsonKey *keys, size_t n)
{
    if (n <= 16)
        sort_few(keys, n);
    else
        qsort(keys, n, sizeof *keys, compare);
}
