/*
 * json_number.c -- numbers to text and back, exactly, in any locale.
 *
 * Most numbers in JSON have few digits. A significand below 2^53 and a power of ten up to 10^22 are
 * both exact doubles, so one division rounds once and is correct (Clinger, "How to read floating
 * point numbers accurately", 1990). All others go through strtod. Doubles are written with the
 * fewest of 15, 16 or 17 digits that read back.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum { MAX_POWER = 22 };

static const double EXACT_LIMIT = 9007199254740992.0; /* 2^53 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
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

JsonToken json_read_number(const char *text, const char *end, int64_t *integer, double *number)
{
    bool negative = *text == '-';
    const char *at = text + negative, *point = end;
    uint64_t significand = 0;
    int digits = 0; /* of the significand: 20 for more than 19 */
    for (; at < end && (is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            point = at;
        } else if ((digits > 0 || *at != '0') && ++digits > 19) {
            break;
        } else {
            significand = significand * 10 + (uint64_t)(*at - '0');
        }
    }
    bool all = at == end; /* there is no exponent, nor another digit */
    if (all && point == end && significand <= (uint64_t)INT64_MAX + negative) {
        /* Unsigned negation: INT64_MIN must not overflow. */
        *integer = (int64_t)(negative ? 0 - significand : significand);
        return JSON_INTEGER;
    }
    if (all && significand <= (uint64_t)EXACT_LIMIT && point < end &&
        end - point <= MAX_POWER + 1) {
        double value = (double)significand / POWERS[end - point - 1];
        *number = negative ? -value : value;
    } else {
        locale_t scripts = uselocale(plain_locale());
        *number = strtod(text, NULL);
        uselocale(scripts);
    }
    return JSON_DOUBLE;
}

static size_t write_digits(char *out, uint64_t value)
{
    char reversed[20];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    return n;
}

size_t json_write_integer(char *out, int64_t value)
{
    if (value >= 0)
        return write_digits(out, (uint64_t)value);
    out[0] = '-';
    return 1 + write_digits(out + 1, 0 - (uint64_t)value);
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
