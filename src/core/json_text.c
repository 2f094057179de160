/*
 * json_text.c -- what stands between the quotes, both ways.
 */
#include <string.h>

#include "core/json.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

enum { REPLACEMENT_SIZE = 3 };

static bool continues(const char *at, const char *end, unsigned char least, unsigned char greatest)
{
    return at < end && (unsigned char)*at >= least && (unsigned char)*at <= greatest;
}

/*
 * Well-formed UTF-8, by the first byte (Unicode, table 3-7). What is ill-formed is taken in the
 * longest pieces that begin a character, so that each becomes one U+FFFD, as browsers do.
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
size_t json_utf8(const char *at, const char *end, size_t *bad)
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
        if (!continues(at + i, end, least, greatest)) {
            *bad = i;
            return 0;
        }
        least = 0x80;
        greatest = 0xBF;
    }
    return size;
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

/* The character of the \u escape at *at (past the backslash); takes both halves of a pair. */
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
    return 0xFFFD; /* a lone half */
}

static char simple_escape(char c)
{
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c; /* " \ / */
    }
}

/* One character's worth of the value, at most 4 bytes of it, into `out`; moves *at past it. */
static size_t next_piece(const char **at, const char *end, char *out)
{
    size_t size, bad;
    if (**at == '\\') {
        ++*at;
        if (**at == 'u')
            return put_utf8(out, unicode_escape(at, end));
        *out = simple_escape(*(*at)++);
        return 1;
    }
    size = json_utf8(*at, end, &bad);
    if (size == 0) {
        *at += bad;
        memcpy(out, REPLACEMENT, REPLACEMENT_SIZE);
        return REPLACEMENT_SIZE;
    }
    memcpy(out, *at, size);
    *at += size;
    return size;
}

size_t json_unescape(const JsonString *s, char *out)
{
    const char *at = s->text, *end = s->text + s->length;
    char *to = out;
    while (at < end) {
        if (*at != '\\' && (unsigned char)*at < 0x80) {
            *to++ = *at++;
        } else {
            char piece[4];
            size_t size = next_piece(&at, end, piece);
            memcpy(to, piece, size);
            to += size;
        }
    }
    return (size_t)(to - out);
}

bool json_string_is(const JsonString *s, const char *text, size_t length)
{
    const char *at = s->text, *end = s->text + s->length;
    if (s->plain)
        return s->length == length && memcmp(s->text, text, length) == 0;
    while (at < end) {
        char piece[4];
        size_t size = next_piece(&at, end, piece);
        if (size > length || memcmp(text, piece, size) != 0)
            return false;
        text += size;
        length -= size;
    }
    return length == 0;
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

/* The text of the character at *at, at most 6 bytes, and *at past it. */
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
        unsigned char c = (unsigned char)*from;
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            *to++ = (char)c;
            from++;
        } else {
            if (limit - to < 6)
                break;
            to += escape_one(&from, end, to);
        }
    }
    *at = from;
    return (size_t)(to - out);
}
