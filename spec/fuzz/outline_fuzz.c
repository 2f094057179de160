/*
 * outline_fuzz.c -- libFuzzer target for src/core/outline.c. `make fuzz` runs it for a short while.
 *
 * Besides what the sanitizers find, it checks that the walk ends, that every item lies within the
 * text and belongs to a section that the vocabulary has, and that items come in the order of their
 * ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/outline.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *word;
    OutlineWord means;
} vocabulary[] = {
    {"issue", {OUTLINE_LIST, 1}},  {"issues", {OUTLINE_LIST, 1}}, {"score", {OUTLINE_VALUE, 2}},
    {"answer", {OUTLINE_TEXT, 3}}, {"notes", {OUTLINE_SKIP, 4}},  {"key", {OUTLINE_LEAD, 0}},
};

static OutlineWord find_word(void *ud, const char *word, size_t len)
{
    (void)ud;
    CHECK(len > 0 && len <= OUTLINE_MAX_WORD);
    for (size_t i = 0; i < sizeof vocabulary / sizeof *vocabulary; i++)
        if (strlen(vocabulary[i].word) == len && memcmp(vocabulary[i].word, word, len) == 0)
            return vocabulary[i].means;
    return (OutlineWord){OUTLINE_UNKNOWN, 0};
}

static bool may_trail(void *ud, const char *word, size_t len)
{
    (void)ud;
    return len == 5 && memcmp(word, "found", len) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A block of exactly this size: a byte read beyond it is found. */
    char *text = malloc(size > 0 ? size : 1);
    CHECK(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    Outline o = outline_begin(text, size, (Vocabulary){find_word, may_trail, NULL});
    OutlineItem item;
    const char *last = text;
    size_t count = 0;
    while (outline_next(&o, &item)) {
        CHECK(item.from >= text && item.from <= item.to && item.to <= text + size);
        CHECK(item.section >= 1 && item.section <= 3);
        if (item.section != 2) { /* a value may stand on a line further down */
            CHECK(item.to >= last);
            last = item.to;
        }
        CHECK(++count <= 2 * size + 2);
    }
    CHECK(!outline_next(&o, &item));
    free(text);
    return 0;
}
