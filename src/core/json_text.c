/* json_text.c -- JSON strings: UTF-8, escaping and unescaping. */
#include <ctype.h>
#include <string.h>

#include "core/json.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

enum { REPLACEMENT_SIZE = 3 };

/*
 * The size of the well-formed UTF-8 character at `at` (Unicode, table 3-7). If it is ill-formed: 0,
 * and *bad is the length of the piece that becomes one U+FFFD, as in browsers.
 *
 *   first     second    further
 *   00..7F
 *   C2..DF    80..BF
 *   E0        A0..BF    80..BF
 *   E1..EC    80..BF    80..BF
 *   ED        80..9F    80..BF            (no surrogates)
 *   EE..EF    80..BF    80..BF
 *   F0        90..BF    80..BF 80..BF
 *   F1..F3    80..BF    80..BF 80..BF
 *   F4        80..8F    80..BF 80..BF     (nothing above 10FFFF)
 */
static size_t utf8(const char *at, const char *end, size_t *bad)
{
    unsigned char first = (unsigned char)*at;
    unsigned char least = 0x80, greatest = 0xBF;
    size_t size;
    *bad = 1;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first == 0xE0)
        least = 0xA0;
    else if (first == 0xED)
        greatest = 0x9F;
    else if (first == 0xF0)
        least = 0x90;
    else if (first == 0xF4)
        greatest = 0x8F;
    for (size_t i = 1; i < size; i++) {
        if (at + i >= end || (unsigned char)at[i] < least || (unsigned char)at[i] > greatest) {
            *bad = i;
            return 0;
        }
        least = 0x80;
        greatest = 0xBF;
    }
    return size;
}

bool json_is_utf8(const char *text, size_t length)
{
    const char *at = text, *end = text + length;
    for (size_t size, bad; at < end; at += size)
        if ((size = utf8(at, end, &bad)) == 0)
            return false;
    return true;
}

/* How many bytes from `from` on need no escape: UTF-8 without quotes, backslashes and controls. */
static size_t plain_run(const char *from, const char *end)
{
    const char *at = from;
    for (size_t size, bad; at < end; at += size) {
        unsigned char c = (unsigned char)*at;
        size = c >= 0x80 ? utf8(at, end, &bad) : c >= 0x20 && c != '"' && c != '\\';
        if (size == 0)
            break;
    }
    return (size_t)(at - from);
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

static uint32_t hex4(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t c = (unsigned char)at[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* The character of the \u escape at *at (past the backslash), which may be a surrogate pair. */
static uint32_t unicode_escape(const char **at, const char *end)
{
    uint32_t c = hex4(*at + 1);
    *at += 5;
    if (c < 0xD800 || c > 0xDFFF)
        return c;
    if (c < 0xDC00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = hex4(*at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *at += 6;
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return 0xFFFD; /* a lone surrogate */
}

/* The value of a two-character escape; 0 if it is not one. */
static const char ESCAPES[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                  ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};

/* Writes one character of the value, at most 4 bytes, to `out`; moves *at past it. */
static size_t next_piece(const char **at, const char *end, char *out)
{
    size_t size, bad;
    if (**at == '\\') {
        ++*at;
        if (**at == 'u')
            return put_utf8(out, unicode_escape(at, end));
        *out = ESCAPES[(unsigned char)*(*at)++];
        return 1;
    }
    size = utf8(*at, end, &bad);
    if (size == 0) {
        *at += bad;
        memcpy(out, REPLACEMENT, REPLACEMENT_SIZE);
        return REPLACEMENT_SIZE;
    }
    memcpy(out, *at, size);
    *at += size;
    return size;
}

/* The length of the escape at `at` (a backslash), or 0 if it is invalid. */
static size_t escape_size(const char *at, const char *end)
{
    if (end - at >= 2 && ESCAPES[(unsigned char)at[1]] != 0)
        return 2;
    bool is_hex = end - at >= 6 && at[1] == 'u';
    for (int i = 2; is_hex && i < 6; i++)
        is_hex = isxdigit((unsigned char)at[i]);
    return is_hex ? 6 : 0;
}

const char *json_scan_string(const char *at, const char *end, JsonString *s)
{
    size_t size, bad = 0;
    *s = (JsonString){.text = at, .plain = true};
    for (;; at += size) {
        at += plain_run(at, end);
        if (at == end)
            return end;
        if (*at == '"')
            break;
        if (*at == '\\') {
            s->plain = false;
            size = escape_size(at, end);
            if (size == 0)
                return at;
        } else if ((unsigned char)*at < 0x80) {
            size = 1; /* a control character */
        } else {
            s->plain = false;
            s->room += 2; /* U+FFFD may be longer than the bytes it replaces */
            utf8(at, end, &bad);
            size = bad;
        }
    }
    s->length = (size_t)(at - s->text);
    s->room += s->length;
    return NULL;
}

size_t json_unescape(const JsonString *s, char *out)
{
    const char *at = s->text, *end = s->text + s->length;
    char *to = out;
    while (at < end) {
        char piece[4];
        size_t size = plain_run(at, end);
        memcpy(to, at, size);
        to += size;
        at += size;
        if (at == end)
            break;
        size = next_piece(&at, end, piece);
        memcpy(to, piece, size);
        to += size;
    }
    return (size_t)(to - out);
}

/* The letter of a two-character escape, 'u' for a control character without one, 0 for none. */
static char escape_letter(unsigned char c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return c < 0x20 ? 'u' : 0;
    }
}

/* Writes the character at *at, escaped, at most 6 bytes; moves *at past it. */
static size_t escape_one(const char **at, const char *end, char *out)
{
    static const char HEX[] = "0123456789abcdef";
    unsigned char c = (unsigned char)**at;
    char letter = escape_letter(c);
    if (letter == 0)
        return next_piece(at, end, out);
    ++*at;
    out[0] = '\\';
    out[1] = letter;
    if (letter != 'u')
        return 2;
    out[2] = out[3] = '0';
    out[4] = HEX[c >> 4];
    out[5] = HEX[c & 15];
    return 6;
}

size_t json_escape(char *out, size_t room, const char **at, const char *end)
{
    char *to = out, *limit = out + room;
    const char *from = *at;
    while (from < end && to < limit) {
        const char *reach = end - from < limit - to ? end : from + (limit - to);
        size_t size = plain_run(from, reach);
        memcpy(to, from, size);
        to += size;
        from += size;
        if (from == reach)
            continue;
        if (limit - to < 6)
            break;
        to += escape_one(&from, end, to);
    }
    *at = from;
    return (size_t)(to - out);
}
