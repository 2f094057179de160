/*
 * find_json_fuzz.c -- libFuzzer target for src/core/find_json.c. `make fuzz` runs it a short while.
 *
 * Besides what the sanitizers find, it checks that the parts are in order, apart from each other,
 * begin and end with matching brackets, and hold the commas that are to be blanks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/find_json.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t allowed; /* allocations left before one fails */

static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    return allowed-- == 0 ? NULL : realloc(ptr, nsize);
}

static void check_parts(const JsonParts *found, const char *text, size_t length)
{
    size_t end = 0;
    for (size_t i = 0; i < found->count; i++) {
        const JsonPart *part = &found->parts[i];
        CHECK(part->start >= end && part->start + 2 <= part->end && part->end <= length);
        char open = text[part->start], close = text[part->end - 1];
        CHECK((open == '{' && close == '}') || (open == '[' && close == ']'));
        end = part->end;
    }
    for (size_t i = 0; i < found->comma_count; i++) {
        CHECK(found->commas[i] < length && text[found->commas[i]] == ',');
        CHECK(i == 0 || found->commas[i] > found->commas[i - 1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    Alloc alloc = {allocate, NULL};
    JsonParts found = {0};
    allowed = data[0] < 32 ? data[0] : SIZE_MAX;
    size_t length = size - 1;
    char *text = malloc(length + 1); /* of its own, so that a read beyond it is seen */
    memcpy(text, data + 1, length);
    if (find_json(&found, &alloc, text, length))
        check_parts(&found, text, length);
    find_json_free(&found, &alloc);
    CHECK(found.parts == NULL && found.commas == NULL);
    free(text);
    return 0;
}
