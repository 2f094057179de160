/*
 * json.h -- JSON text: a pull reader, and conversion of strings and numbers both ways.
 *
 * Nothing here allocates or copies: the reader points into the caller's text, and output goes into
 * the caller's buffer. The reader keeps one bit for each open container instead of recursing.
 *
 * It accepts RFC 8259 and what services send beyond it:
 *   - a UTF-8 byte order mark before the text;
 *   - unescaped control characters in strings;
 *   - bytes that are not UTF-8 and lone surrogates, which become U+FFFD;
 *   - NaN, Infinity and -Infinity, as Python and JavaScript print them; numbers beyond a double's
 *     range, which become infinite.
 */
#ifndef PONDER_CORE_JSON_H
#define PONDER_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JSON_DEPTH_CEILING = 10000, /* the highest max_depth of a reader */
    JSON_NUMBER_ROOM = 32       /* bytes that json_write_integer and json_write_double may need */
};

typedef enum JsonToken {
    JSON_ERROR,
    JSON_END, /* after the text's one value and white space */
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_INTEGER, /* reader->integer: no fraction, no exponent, and in 64 bits */
    JSON_DOUBLE,  /* reader->number */
    JSON_STRING,  /* reader->string */
    JSON_KEY,     /* reader->string; the colon has been read */
    JSON_OPEN_LIST,
    JSON_CLOSE_LIST,
    JSON_OPEN_OBJECT,
    JSON_CLOSE_OBJECT
} JsonToken;

/* The text between the quotes. If `plain`, it is the value; else see json_unescape. */
typedef struct JsonString {
    const char *text;
    size_t length;
    size_t room; /* upper bound of the value's bytes */
    bool plain;
} JsonString;

typedef enum JsonFault { JSON_OK, JSON_BAD, JSON_TOO_DEEP } JsonFault;

typedef enum JsonExpect {
    JSON_EXPECT_VALUE,
    JSON_EXPECT_FIRST_ITEM, /* or ] */
    JSON_EXPECT_FIRST_KEY,  /* or } */
    JSON_EXPECT_SEPARATOR,  /* , or ] or } */
    JSON_EXPECT_END
} JsonExpect;

typedef struct JsonReader {
    const char *start;
    const char *at;
    const char *end;
    size_t depth; /* open containers */
    size_t max_depth;
    JsonExpect expect;
    union {
        int64_t integer;
        double number;
        JsonString string;
    };
    JsonFault fault;     /* after JSON_ERROR */
    const char *problem; /* after JSON_ERROR: what was wrong, at `at` */
    unsigned char is_object[JSON_DEPTH_CEILING / 8 + 1];
} JsonReader;

/* A reader's position for messages: all counted from 1, columns in characters. */
typedef struct JsonPlace {
    size_t byte;
    size_t line;
    size_t column;
} JsonPlace;

/* `text` ends with a NUL, as a Lua string does; it may contain others. */
void json_open(JsonReader *r, const char *text, size_t length, size_t max_depth);

/* The next token. After JSON_ERROR and JSON_END the reader stays where it is. */
JsonToken json_next(JsonReader *r);

/* Skips the next value, whole; false: an error. */
bool json_skip(JsonReader *r);

/* Inside a list: whether there is another item for json_next or json_skip to read. False: the list
 * has ended and is closed, or an error (r->fault). */
bool json_item(JsonReader *r);

/* Whether the innermost open container, of which there is one, is an object. */
bool json_in_object(const JsonReader *r);

JsonPlace json_place(const JsonReader *r);

/* Reads the string whose first byte after the opening quote is at `at`. Returns NULL, or the place
 * of an invalid escape, or `end` if the closing quote is missing. */
const char *json_scan_string(const char *at, const char *end, JsonString *s);

/* The value of a string that is not plain, into `out` (s->room bytes of it); returns its length. */
size_t json_unescape(const JsonString *s, char *out);

/* Escapes the bytes from *at as far as `room` allows, and moves *at past them; invalid UTF-8
 * becomes U+FFFD. Returns the bytes written, at least one if room is 6 or more. */
size_t json_escape(char *out, size_t room, const char **at, const char *end);

bool json_is_utf8(const char *text, size_t length);

/* Text that reads back as the same number, in any locale; that of a double has the fewest of 15, 16
 * or 17 digits that do, and always a fraction or an exponent. */
size_t json_write_integer(char *out, int64_t value);
size_t json_write_double(char *out, double value); /* finite */

#endif
