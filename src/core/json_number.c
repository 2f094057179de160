/*
 * json_number.c -- numbers to text and back, exactly, in any locale.
 *
 * Most numbers in JSON have few digits. A significand below 2^53 and a power of ten up to 10^22 are
 * both exact doubles, so one division rounds once and is correct (Clinger, "How to read floating
 * point numbers accurately", 1990). All others go through strtod and snprintf.
 */
#define _GNU_SOURCE /* strtod_l */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum {
    MAX_POWER = 22,
    SHORT_DIGITS = 15,      /* decimal digits that always survive a round trip via a double */
    MAX_DIGITS_NEEDED = 17, /* digits that always identify a double */
    MAX_POWER_OF_5 = 27     /* in 64 bits */
};

static const double EXACT_LIMIT = 9007199254740992.0; /* 2^53 */
static const double SHORT_LIMIT = 999999999999999.0;  /* SHORT_DIGITS digits */

__extension__ typedef unsigned __int128 Wide;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The locale of scripts may have another decimal point. */
static double read_slowly(const char *text)
{
    static locale_t plain;
    if (plain == (locale_t)0)
        plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain != (locale_t)0 ? strtod_l(text, NULL, plain) : strtod(text, NULL);
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
        *number = read_slowly(text);
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

/* Writes 0.ddd * 10^point: without an exponent from 1e-5 to 1e16, and always recognizable as a
 * float: "0.001", "12.5", "1200.0", "1.5e-7", "1e16". */
static size_t write_decimal(char *out, const char *digits, int n, int point)
{
    char *at = out;
    if (point > 0 && point <= 16) {
        for (int i = 0; i < point || i < n; i++) {
            if (i == point)
                *at++ = '.';
            *at++ = i < n ? digits[i] : '0';
        }
        if (n <= point) {
            *at++ = '.';
            *at++ = '0';
        }
    } else if (point <= 0 && point > -5) {
        *at++ = '0';
        *at++ = '.';
        for (int i = point; i < n; i++)
            *at++ = i < 0 ? '0' : digits[i];
    } else {
        for (int i = 0; i < n; i++) {
            if (i == 1)
                *at++ = '.';
            *at++ = digits[i];
        }
        *at++ = 'e';
        at += json_write_integer(at, point - 1);
    }
    return (size_t)(at - out);
}

/*
 * Few digits: finds the least k for which value * 10^k is an integer m of at most 15 digits and
 * m / 10^k equals the value. Reading the text does that same division.
 */
static size_t short_digits(char *digits, double value, int *point)
{
    for (int k = 0; k <= MAX_POWER && value * POWERS[k] < SHORT_LIMIT; k++) {
        uint64_t m = (uint64_t)(value * POWERS[k] + 0.5);
        if (m > 0 && (double)m / POWERS[k] == value) {
            size_t n = write_digits(digits, m);
            *point = (int)n - k;
            return n;
        }
    }
    return 0;
}

static uint64_t power_of_5(int k)
{
    uint64_t result = 1;
    for (uint64_t base = 5; k > 0; k >>= 1, base *= base)
        if (k & 1)
            result *= base;
    return result;
}

/*
 * Ordinary magnitudes: the least number of digits, 15 or more, that reads back, in integers only.
 *
 * The value is m / 2^s. Times 10^k it is m * 5^k / 2^(s-k); the nearest integer, d, has n digits
 * for the right k. d / 10^k reads back as the value if its error is at most half the distance to
 * the next double: 5^k / 2 in units of 1 / 2^(s-k), inclusive if m is even. Below a power of two
 * the next double is half as far. Returns 0 if 128 bits do not suffice.
 */
static size_t exact_digits(char *digits, double value, int *point)
{
    int exponent;
    uint64_t m = (uint64_t)ldexp(frexp(value, &exponent), 53);
    int places = (int)floor(log10(value)) + 1;
    for (int n = SHORT_DIGITS; n <= MAX_DIGITS_NEEDED; n++) {
        int k = n - places, shift = 53 - exponent - k;
        if (k < 0 || k > MAX_POWER_OF_5 || shift < 1)
            return 0;
        uint64_t power = power_of_5(k);
        Wide exact = (Wide)m * power;
        uint64_t d = (uint64_t)((exact + ((Wide)1 << (shift - 1))) >> shift);
        Wide rounded = (Wide)d << shift;
        Wide error = rounded < exact ? exact - rounded : rounded - exact;
        if (rounded < exact && m == (uint64_t)1 << 52)
            error *= 2;
        if (2 * error < power || (2 * error == power && m % 2 == 0)) {
            size_t written = write_digits(digits, d);
            *point = (int)written - k;
            return written;
        }
    }
    return 0;
}

/* Any number: adds digits until the text reads back. */
static size_t long_digits(char *digits, double value, int *point)
{
    char text[40];
    /* Only the smallest numbers can have fewer than 15 digits here. */
    int precision = fabs(value) < 1e-300 ? 1 : SHORT_DIGITS;
    for (;; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, value);
        if (precision >= MAX_DIGITS_NEEDED || strtod(text, NULL) == value)
            break;
    }
    const char *e = strchr(text, 'e');
    size_t n = 0;
    for (const char *at = text; at < e; at++)
        if (is_digit(*at)) /* the rest is the locale's decimal point */
            digits[n++] = *at;
    *point = atoi(e + 1) + 1;
    return n;
}

size_t json_write_double(char *out, double value)
{
    char digits[20];
    int point = 1;
    size_t sign = signbit(value) ? 1 : 0;
    double magnitude = fabs(value);
    out[0] = '-'; /* overwritten by the number unless it is negative */
    if (magnitude == 0) {
        memcpy(out + sign, "0.0", 3);
        return sign + 3;
    }
    size_t n = short_digits(digits, magnitude, &point);
    if (n == 0)
        n = exact_digits(digits, magnitude, &point);
    if (n == 0)
        n = long_digits(digits, magnitude, &point);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return sign + write_decimal(out + sign, digits, (int)n, point);
}
