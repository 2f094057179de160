/*
 * find_json.h -- finds JSON objects and lists anywhere in a text.
 *
 * Models wrap JSON in prose and fences, and leave trailing commas before a closing bracket. One
 * pass finds the largest parts that are JSON once those commas are blanked. After an opening
 * bracket the text is read token by token; at the first unexpected token all open containers are
 * dropped and the search resumes at that token. None of them could have been completed, so no text
 * is read twice and the time is linear.
 *
 * Only brackets, commas, colons and strings are checked; numbers and words are the decoder's.
 */
#ifndef PONDER_CORE_FIND_JSON_H
#define PONDER_CORE_FIND_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "core/vec.h"

#define FIND_JSON_MAX_DEPTH 1000
#define FIND_JSON_MAX_PARTS 10000 /* found; the search stops there */

typedef struct JsonPart {
    size_t start, end; /* end: one past the last byte */
} JsonPart;

typedef struct JsonParts {
    JsonPart *parts; /* in order, disjoint */
    size_t count, capacity;
    size_t *commas; /* offsets of trailing commas, in order */
    size_t comma_count, comma_capacity;
} JsonParts;

/* Fills `found`, which must be zero. False: out of memory. Call find_json_free in either case. */
bool find_json(JsonParts *found, const Alloc *alloc, const char *text, size_t length);
void find_json_free(JsonParts *found, const Alloc *alloc);

#endif
