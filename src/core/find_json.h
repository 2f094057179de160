/*
 * find_json.h -- JSON objects and lists wherever they stand in a text.
 *
 * Replies of models wrap JSON in prose and in fences, and leave commas before a closing bracket.
 * One pass over the text finds the largest parts that read as JSON once those commas are blanks.
 * What follows a bracket is read token by token; at the first that cannot stand there, all that is
 * open is given up, and the search goes on from that very token. Nothing that is open there could
 * have succeeded, so no text is read twice, and the time is linear whatever the text.
 *
 * A part is well formed as far as brackets, commas, colons and strings go; whether its numbers and
 * words are JSON's is left to the decoder.
 */
#ifndef PONDER_CORE_FIND_JSON_H
#define PONDER_CORE_FIND_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "core/vec.h"

#define FIND_JSON_MAX_DEPTH 1000
#define FIND_JSON_MAX_PARTS 10000 /* once there are as many, no further one is begun */

typedef struct JsonPart {
    size_t start, end; /* end: one past the last byte */
} JsonPart;

typedef struct JsonParts {
    JsonPart *parts; /* in order; none lies in another */
    size_t count, capacity;
    size_t *commas; /* places of the commas before a closing bracket, in order */
    size_t comma_count, comma_capacity;
} JsonParts;

/* Fills `found`, which must be zero. False: out of memory. In either case find_json_free is due. */
bool find_json(JsonParts *found, const Alloc *alloc, const char *text, size_t length);
void find_json_free(JsonParts *found, const Alloc *alloc);

#endif
