/*
 * outline.h -- splits a model's reply into marked sections and their items.
 *
 *     ISSUE: the date is wrong,          a marker with an item behind it
 *       it should be 1999                the item goes on
 *     **Key strengths (optional):**      a marker alone opens a list
 *     - reads well                       an item
 *     - short                            an item
 *
 * A marker is a known word at the start of a line: after any decoration (bullets, numbers, `#`,
 * `>`,
 * `**`, emoji) and words that may lead ("key"), before words that may trail ("found"), a number,
 * something in brackets, and a separator (`:`, `|`, a dash with spaces) or the end of the line.
 * Which words are known, and what they mean, is the caller's business.
 *
 * In a list, every bullet begins an item, unless it is deeper than the open one; where there are no
 * bullets, every paragraph does. Text behind a marker that ends with a colon, before bullets, is
 * none. An item ends with the next one, the next marker, a heading, or a blank line that nothing
 * indented follows.
 *
 * One pass, no allocation; time is linear in the length of the text.
 */
#ifndef PONDER_CORE_OUTLINE_H
#define PONDER_CORE_OUTLINE_H

#include <stdbool.h>
#include <stddef.h>

#define OUTLINE_MAX_WORD 15 /* longer words are not looked up */

typedef enum OutlineRole {
    OUTLINE_UNKNOWN, /* not a word of the vocabulary */
    OUTLINE_LEAD,    /* may stand before a marker */
    OUTLINE_SKIP,    /* opens a section of no interest */
    OUTLINE_LIST,    /* opens a list of items */
    OUTLINE_VALUE,   /* holds one value: the text behind the marker, or on the next line with any */
    OUTLINE_TEXT,    /* holds all text up to the next marker in capitals */
} OutlineRole;

typedef struct OutlineWord {
    OutlineRole role;
    int section; /* the caller's name for the section that the word opens */
} OutlineWord;

typedef struct Vocabulary {
    /* `word` is in lower case. */
    OutlineWord (*find)(void *ud, const char *word, size_t len);
    bool (*trails)(void *ud, const char *word, size_t len);
    void *ud;
} Vocabulary;

typedef struct OutlineItem {
    int section;
    const char *from, *to;
} OutlineItem;

typedef struct Outline {
    Vocabulary words;
    const char *at, *end; /* text not yet read; `at` is the start of a line */
    OutlineWord open;     /* the open section */
    OutlineItem item;     /* the open item; none while from == NULL */
    OutlineItem done;     /* an item that ended on the line just read */
    OutlineItem value;    /* a value on the line just read */
    ptrdiff_t indent;     /* column of the open item */
    bool loose;           /* the list has had no bullet yet */
    bool gap;             /* a blank line came last */
    bool behind_marker;   /* the open item began on the marker's line */
} Outline;

Outline outline_begin(const char *text, size_t len, Vocabulary words);

/* The next item, in order of their ends. False at the end of the text. */
bool outline_next(Outline *o, OutlineItem *item);

#endif
