/*
 * json.c -- the JSON pull reader: one token a call, checked against the grammar.
 *
 *   expecting     reads            then expects
 *   VALUE         a scalar         SEPARATOR (END outside of any container)
 *                 [                FIRST_ITEM
 *                 {                FIRST_KEY
 *   FIRST_ITEM    ]                SEPARATOR or END; anything else as VALUE
 *   FIRST_KEY     "key" :          VALUE
 *                 }                SEPARATOR or END
 *   SEPARATOR     , in a list      as VALUE
 *                 , "key" :        VALUE
 *                 ] or }           SEPARATOR or END
 *   END           end of text      END
 */
#include "core/json.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static JsonToken fail_at(JsonReader *r, const char *at, const char *problem)
{
    r->fault = JSON_BAD;
    r->problem = problem;
    r->at = at;
    return JSON_ERROR;
}

static JsonToken fail(JsonReader *r, const char *problem)
{
    return fail_at(r, r->at, r->at == r->end ? "unexpected end of text" : problem);
}

void json_open(JsonReader *r, const char *text, size_t length, size_t max_depth)
{
    r->start = r->at = text;
    r->end = text + length;
    r->depth = 0;
    r->max_depth = max_depth < JSON_DEPTH_CEILING ? max_depth : JSON_DEPTH_CEILING;
    r->expect = JSON_EXPECT_VALUE;
    r->fault = JSON_OK;
    r->problem = NULL;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        r->at += 3;
}

static void skip_space(JsonReader *r)
{
    const char *at = r->at, *end = r->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    r->at = at;
}

/* ---- containers ---- */

bool json_in_object(const JsonReader *r)
{
    size_t i = r->depth - 1;
    return r->is_object[i >> 3] >> (i & 7) & 1;
}

static JsonToken open_container(JsonReader *r, bool object)
{
    size_t i = r->depth;
    unsigned char bit = (unsigned char)(1u << (i & 7));
    if (i >= r->max_depth) {
        r->fault = JSON_TOO_DEEP;
        r->problem = "nested too deeply";
        return JSON_ERROR;
    }
    if (object)
        r->is_object[i >> 3] |= bit;
    else
        r->is_object[i >> 3] &= (unsigned char)~bit;
    r->depth++;
    r->at++;
    r->expect = object ? JSON_EXPECT_FIRST_KEY : JSON_EXPECT_FIRST_ITEM;
    return object ? JSON_OPEN_OBJECT : JSON_OPEN_LIST;
}

static void value_done(JsonReader *r)
{
    r->expect = r->depth == 0 ? JSON_EXPECT_END : JSON_EXPECT_SEPARATOR;
}

static JsonToken close_container(JsonReader *r, JsonToken token)
{
    r->at++;
    r->depth--;
    value_done(r);
    return token;
}

/* ---- strings ---- */

/* The string whose opening quote is at r->at. */
static bool read_string(JsonReader *r)
{
    const char *wrong = json_scan_string(r->at + 1, r->end, &r->string);
    if (wrong != NULL) {
        if (wrong == r->end)
            fail_at(r, r->at, "unterminated string");
        else
            fail_at(r, wrong, "invalid escape");
        return false;
    }
    r->at = r->string.text + r->string.length + 1;
    return true;
}

/* ---- other scalars ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits; false: there is none. (The text ends with a NUL.) */
static bool read_digits(JsonReader *r)
{
    const char *from = r->at;
    while (is_digit(*r->at))
        r->at++;
    return r->at > from;
}

/* Goes to the end of the number at r->at; false: to the mistake in it. */
static bool skip_number(JsonReader *r)
{
    r->at += *r->at == '-';
    const char *first = r->at;
    if (!read_digits(r))
        return false;
    if (*first == '0' && r->at - first > 1) {
        r->at = first;
        return false;
    }
    if (*r->at == '.' && (r->at++, !read_digits(r)))
        return false;
    if (*r->at == 'e' || *r->at == 'E') {
        r->at++;
        r->at += *r->at == '+' || *r->at == '-';
        return read_digits(r);
    }
    return true;
}

static bool at_word(const JsonReader *r, const char *word, size_t length)
{
    return (size_t)(r->end - r->at) >= length && memcmp(r->at, word, length) == 0;
}

/* The locale of scripts may have another decimal point. 0 if memory is short, which means the
 * scripts' locale. */
static locale_t plain_locale(void)
{
    static locale_t plain;
    if (plain == (locale_t)0)
        plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain;
}

/* Integers beyond 64 bits become doubles. After a number comes a character that cannot continue it,
 * such as NUL. */
static JsonToken read_number(JsonReader *r)
{
    const char *text = r->at;
    if (at_word(r, "-Infinity", 9)) {
        r->at += 9;
        r->number = -(double)INFINITY;
        return JSON_DOUBLE;
    }
    if (!skip_number(r))
        return fail(r, *r->at == '0' ? "a number must not begin with 0" : "expected a digit");
    if (text + strspn(text, "-0123456789") == r->at) {
        errno = 0;
        r->integer = strtoll(text, NULL, 10);
        if (errno == 0)
            return JSON_INTEGER;
    }
    locale_t scripts = uselocale(plain_locale());
    r->number = strtod(text, NULL);
    uselocale(scripts);
    return JSON_DOUBLE;
}

static JsonToken read_word(JsonReader *r)
{
    static const struct {
        const char *word;
        size_t length;
        JsonToken token;
        double number;
    } WORDS[] = {
        {"null", 4, JSON_NULL, 0},
        {"true", 4, JSON_TRUE, 0},
        {"false", 5, JSON_FALSE, 0},
        {"NaN", 3, JSON_DOUBLE, (double)NAN},
        {"Infinity", 8, JSON_DOUBLE, (double)INFINITY},
    };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (at_word(r, WORDS[i].word, WORDS[i].length)) {
            r->at += WORDS[i].length;
            if (WORDS[i].token == JSON_DOUBLE)
                r->number = WORDS[i].number;
            return WORDS[i].token;
        }
    }
    return fail(r, "expected a value");
}

static JsonToken read_value(JsonReader *r)
{
    JsonToken token;
    skip_space(r);
    if (r->at == r->end)
        return fail(r, NULL);
    switch (*r->at) {
    case '[': return open_container(r, false);
    case '{': return open_container(r, true);
    case '"': token = read_string(r) ? JSON_STRING : JSON_ERROR; break;
    default: token = *r->at == '-' || is_digit(*r->at) ? read_number(r) : read_word(r); break;
    }
    if (token != JSON_ERROR)
        value_done(r);
    return token;
}

/* ---- the table above ---- */

bool json_item(JsonReader *r)
{
    bool first = r->expect == JSON_EXPECT_FIRST_ITEM;
    if (r->fault != JSON_OK)
        return false;
    skip_space(r);
    if (r->at < r->end && *r->at == ']') {
        close_container(r, JSON_CLOSE_LIST);
        return false;
    }
    if (!first) {
        if (r->at == r->end || *r->at != ',') {
            fail(r, "expected ',' or ']'");
            return false;
        }
        r->at++;
    }
    r->expect = JSON_EXPECT_VALUE;
    return true;
}

static JsonToken next_item(JsonReader *r)
{
    if (json_item(r))
        return read_value(r);
    return r->fault == JSON_OK ? JSON_CLOSE_LIST : JSON_ERROR;
}

static JsonToken next_key(JsonReader *r)
{
    bool first = r->expect == JSON_EXPECT_FIRST_KEY;
    skip_space(r);
    if (r->at < r->end && *r->at == '}')
        return close_container(r, JSON_CLOSE_OBJECT);
    if (!first) {
        if (r->at == r->end || *r->at != ',')
            return fail(r, "expected ',' or '}'");
        r->at++;
        skip_space(r);
    }
    if (r->at == r->end || *r->at != '"')
        return fail(r, "expected a key in double quotes");
    if (!read_string(r))
        return JSON_ERROR;
    skip_space(r);
    if (r->at == r->end || *r->at != ':')
        return fail(r, "expected ':' after the key");
    r->at++;
    r->expect = JSON_EXPECT_VALUE;
    return JSON_KEY;
}

JsonToken json_next(JsonReader *r)
{
    if (r->fault != JSON_OK)
        return JSON_ERROR;
    switch (r->expect) {
    case JSON_EXPECT_VALUE: return read_value(r);
    case JSON_EXPECT_FIRST_ITEM: return next_item(r);
    case JSON_EXPECT_FIRST_KEY: return next_key(r);
    case JSON_EXPECT_SEPARATOR: return json_in_object(r) ? next_key(r) : next_item(r);
    case JSON_EXPECT_END: break;
    }
    skip_space(r);
    return r->at == r->end ? JSON_END : fail(r, "trailing data after the value");
}

bool json_skip(JsonReader *r)
{
    size_t depth = r->depth;
    do {
        if (json_next(r) == JSON_ERROR)
            return false;
    } while (r->depth > depth);
    return true;
}

JsonPlace json_place(const JsonReader *r)
{
    JsonPlace place = {(size_t)(r->at - r->start) + 1, 1, 1};
    for (const char *at = r->start; at < r->at; at++) {
        if (*at == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)*at & 0xC0) != 0x80) {
            place.column++;
        }
    }
    return place;
}

/* ---- writing numbers ---- */

size_t json_write_integer(char *out, int64_t value)
{
    return (size_t)snprintf(out, JSON_NUMBER_ROOM, "%" PRId64, value);
}

size_t json_write_double(char *out, double value)
{
    int n;
    locale_t scripts = uselocale(plain_locale());
    for (int precision = 15; precision <= 17; precision++) {
        n = snprintf(out, JSON_NUMBER_ROOM, "%.*g", precision, value);
        if (strtod(out, NULL) == value)
            break;
    }
    uselocale(scripts);
    if (strpbrk(out, ".e") == NULL)
        n += snprintf(out + n, 3, ".0");
    return (size_t)n;
}
