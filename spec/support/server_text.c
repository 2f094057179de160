/*
 * server_text.c -- growing text, and the "key=value&key=value" strings that steer the test server.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server.h"

double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void text_add(Text *t, const char *bytes, size_t n)
{
    if (t->size + n + 1 > t->capacity) {
        t->capacity = (t->size + n + 1) * 2;
        t->data = realloc(t->data, t->capacity);
        if (t->data == NULL)
            abort();
    }
    if (n > 0)
        memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void text_addf(Text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *line = malloc((size_t)n + 1);
    if (line == NULL)
        abort();
    va_start(args, format);
    vsnprintf(line, (size_t)n + 1, format, args);
    va_end(args);
    text_add(t, line, (size_t)n);
    free(line);
}

void text_free(Text *t)
{
    free(t->data);
    *t = (Text){0};
}

char *copy_bytes(const char *bytes, size_t n)
{
    Text t = {0};
    text_add(&t, bytes, n);
    return t.data;
}

char *copy_string(const char *s)
{
    return copy_bytes(s, strlen(s));
}

void read_file(const char *path, Text *out)
{
    char bytes[65536];
    FILE *f = fopen(path, "rb");
    for (size_t n; f != NULL && (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
        text_add(out, bytes, n);
    if (f != NULL)
        fclose(f);
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

static char *decode(const char *s, size_t n, size_t *size)
{
    Text t = {0};
    text_add(&t, "", 0);
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%' && i + 2 < n && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            c = (char)(hex(s[i + 1]) * 16 + hex(s[i + 2]));
            i += 2;
        }
        text_add(&t, &c, 1);
    }
    if (size != NULL)
        *size = t.size;
    return t.data;
}

char *steer_get(const char *query, const char *key, int nth, size_t *size)
{
    size_t length = strlen(key);
    for (const char *at = query; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, "&\n");
        if (n > length && strncmp(at, key, length) == 0 && at[length] == '=' && nth-- == 0)
            return decode(at + length + 1, n - length - 1, size);
        at += n + (at[n] != '\0');
    }
    return NULL;
}

long steer_number(const char *query, const char *key, long otherwise)
{
    char *value = steer_get(query, key, 0, NULL);
    long number = value != NULL ? strtol(value, NULL, 10) : otherwise;
    free(value);
    return number;
}

unsigned long hash_bytes(const char *bytes, size_t n)
{
    unsigned long h = 14695981039346656037UL;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * 1099511628211UL;
    return h | 1;
}
