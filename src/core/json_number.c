/*
 * json_number.c -- numbers to text and back, exactly, in any locale. Doubles are written with the
 * fewest of 15, 16 or 17 digits that read back.
 */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

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
    if (text + strspn(text, "-0123456789") == end) {
        errno = 0;
        *integer = strtoll(text, NULL, 10);
        if (errno == 0)
            return JSON_INTEGER;
    }
    locale_t scripts = uselocale(plain_locale());
    *number = strtod(text, NULL);
    uselocale(scripts);
    return JSON_DOUBLE;
}

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
