/*
 * outline.h -- splits a model's reply into marked sections and their items.
 *
 *     ISSUE: the date is wrong,          a marker followed by an item
 *       it should be 1999                the item continues
 *     **Key strengths (optional):**      a marker alone opens a list
 *     - reads well                       an item
 *     - short                            an item
 *
 * A marker is a known word at the start of a line. Decoration (bullets, numbers, `#`, `>`, `**`,
 * emoji) and leading words ("key") may precede it; trailing words ("found"), a number and text in
 * brackets may follow it; then comes a separator (`:`, `|`, a dash with spaces) or the end of the
 * line. The caller's Vocabulary says which words are known and what they mean.
 *
 * In a list every bullet begins an item unless it is indented deeper than the open one; without
 * bullets every paragraph does. Text after a marker that ends with a colon and precedes bullets is
 * not an item. An item ends at the next one, the next marker, a heading, or a blank line that no
 * indented text follows.
 *
 * One pass, no allocation, linear time.
 */
#ifndef PONDER_CORE_OUTLINE_H
#define PONDER_CORE_OUTLINE_H

#include <stdbool.h>
#include <stddef.h>

#define OUTLINE_MAX_WORD 15 /* longer words are not looked up */

typedef enum OutlineRole {
    OUTLINE_UNKNOWN, /* not a word of the vocabulary */
    OUTLINE_LEAD,    /* may precede a marker */
    OUTLINE_SKIP,    /* opens a section that is dropped */
    OUTLINE_LIST,    /* opens a list of items */
    OUTLINE_VALUE,   /* one value: the text after the marker, or else the next non-empty line */
    OUTLINE_TEXT,    /* all text up to the next marker in capitals */
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
    OutlineItem item;     /* the open item, unless from == NULL */
    OutlineItem done;     /* an item that ended on the line just read */
    OutlineItem value;    /* a value on the line just read */
    ptrdiff_t indent;     /* column of the open item */
    bool loose;           /* the list has had no bullet yet */
    bool gap;             /* the last line was blank */
    bool on_marker_line;  /* the open item began there */
} Outline;

Outline outline_begin(const char *text, size_t len, Vocabulary words);

/* The next item, in the order in which they end. False at the end of the text. */
bool outline_next(Outline *o, OutlineItem *item);

#endif
