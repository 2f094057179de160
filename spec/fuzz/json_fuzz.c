/*
 * json_fuzz.c -- libFuzzer target for src/core/json*.c. `make fuzz` runs it for a short while.
 *
 * The first byte of an input selects how the rest is read: as a JSON text, the bytes of a string,
 * or the bits of numbers. Besides what the sanitizers find, it checks that
 *   - skipping a value and reading it token by token end at the same place with the same fault;
 *   - a string's value fits in the promised size, and is well-formed UTF-8;
 *   - what is written is read back unchanged, also when written in small pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

enum { MAX_DEPTH = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The JSON string for these bytes, quotes included, written `piece` bytes at a time. */
static char *quote(const char *text, size_t length, size_t piece, size_t *written)
{
    char *out = malloc(6 * length + piece + 2);
    const char *end = text + length;
    size_t n = 0;
    CHECK(out != NULL);
    out[n++] = '"';
    while (text < end) {
        const char *before = text;
        n += json_escape(out + n, piece, &text, end);
        CHECK(text > before);
    }
    out[n++] = '"';
    *written = n;
    return out;
}

static char *value_of(const JsonString *s, size_t *length)
{
    char *value = malloc(s->room + 1);
    CHECK(value != NULL);
    if (s->plain) {
        CHECK(s->length <= s->room);
        memcpy(value, s->text, s->length);
        *length = s->length;
    } else {
        *length = json_unescape(s, value);
    }
    CHECK(*length <= s->room);
    return value;
}

/* A value that has been read needs no repair: it is written and read back as it is. */
static void check_string(const JsonString *s)
{
    size_t length, written, length_again, written_again;
    char *value = value_of(s, &length);
    char *text = quote(value, length, 6, &written);
    JsonString again;
    CHECK(json_scan_string(text + 1, text + written, &again) == NULL);
    CHECK(again.length == written - 2);
    char *value_again = value_of(&again, &length_again);
    CHECK(length == length_again && memcmp(value, value_again, length) == 0);
    char *text_again = quote(value_again, length_again, 1000, &written_again);
    CHECK(written == written_again && memcmp(text, text_again, written) == 0);
    free(text_again);
    free(value_again);
    free(text);
    free(value);
}

static void check_double(double value)
{
    char text[JSON_NUMBER_ROOM + 1];
    JsonReader r;
    if (value - value != 0) /* NaN or infinite */
        return;
    size_t n = json_write_double(text, value);
    CHECK(n <= JSON_NUMBER_ROOM);
    text[n] = '\0';
    json_open(&r, text, n, 1);
    CHECK(json_next(&r) == JSON_DOUBLE);
    CHECK(memcmp(&value, &r.number, sizeof value) == 0);
}

static void check_integer(int64_t value)
{
    char text[JSON_NUMBER_ROOM + 1];
    JsonReader r;
    size_t n = json_write_integer(text, value);
    CHECK(n <= JSON_NUMBER_ROOM);
    text[n] = '\0';
    json_open(&r, text, n, 1);
    CHECK(json_next(&r) == JSON_INTEGER);
    CHECK(value == r.integer);
}

static void check_text(const char *text, size_t length)
{
    JsonReader r, skipper;
    JsonToken token;
    json_open(&r, text, length, MAX_DEPTH);
    do {
        token = json_next(&r);
        CHECK(r.at >= text && r.at <= text + length && r.depth <= MAX_DEPTH);
        if (token == JSON_STRING || token == JSON_KEY)
            check_string(&r.string);
        else if (token == JSON_DOUBLE)
            check_double(r.number);
        else if (token == JSON_INTEGER)
            check_integer(r.integer);
    } while (token != JSON_END && token != JSON_ERROR);
    json_open(&skipper, text, length, MAX_DEPTH);
    if (json_skip(&skipper))
        json_next(&skipper);
    CHECK(skipper.at == r.at && skipper.fault == r.fault && skipper.problem == r.problem);
    JsonPlace place = json_place(&r);
    CHECK(place.byte <= length + 1 && place.line + place.column <= length + 2);
}

static void check_bytes(const char *bytes, size_t length)
{
    size_t written;
    char *text = quote(bytes, length, 6 + length % 50, &written);
    JsonString s;
    CHECK(json_scan_string(text + 1, text + written, &s) == NULL);
    CHECK(s.length == written - 2);
    check_string(&s);
    free(text);
}

static void check_numbers(const char *bytes, size_t length)
{
    for (; length >= 8; bytes += 8, length -= 8) {
        double number;
        int64_t integer;
        memcpy(&number, bytes, 8);
        memcpy(&integer, bytes, 8);
        check_double(number);
        check_integer(integer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    /* A block of exactly the right size, so that reading past either end is found. */
    char *copy = malloc(size + 1);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    copy[size] = '\0';
    switch (data[0]) {
    case 0: check_bytes(copy + 1, size - 1); break;
    case 1: check_numbers(copy + 1, size - 1); break;
    default: check_text(copy, size); break;
    }
    free(copy);
    return 0;
}
