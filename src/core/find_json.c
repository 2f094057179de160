/* find_json.c -- see find_json.h: a pushdown automaton over the tokens after a bracket. */
#include "core/find_json.h"

#include <stdint.h>
#include <string.h>

/* What may come next in the innermost container. */
typedef enum Expect {
    FIRST,       /* list: a value or ]      object: a key or } */
    AFTER_KEY,   /* object: : */
    VALUE,       /* object, after the colon: a value */
    AFTER_VALUE, /* , or the closing bracket */
    AFTER_COMMA  /* as FIRST, but a closing bracket makes the comma a trailing one */
} Expect;

typedef struct Open {
    size_t start;
    size_t comma; /* offset of the last one, for AFTER_COMMA */
    bool is_object;
    Expect expect;
} Open;

typedef struct Scan {
    const Alloc *alloc;
    const char *text;
    size_t length, at;
    JsonParts *found;
    Open stack[FIND_JSON_MAX_DEPTH];
    size_t depth;
    bool no_memory;
} Scan;

static bool add_part(Scan *s, size_t start, size_t end)
{
    JsonParts *found = s->found;
    while (found->count > 0 && found->parts[found->count - 1].start > start)
        found->count--; /* it is inside the new one */
    if (!array_reserve(found->parts, found->count, found->capacity, s->alloc, 1))
        return false;
    found->parts[found->count++] = (JsonPart){start, end};
    return true;
}

static bool add_comma(Scan *s, size_t at)
{
    JsonParts *found = s->found;
    if (!array_reserve(found->commas, found->comma_count, found->comma_capacity, s->alloc, 1))
        return false;
    found->commas[found->comma_count++] = at;
    return true;
}

/* Moves from the opening quote at s->at past the closing one. */
static bool skip_string(Scan *s)
{
    for (size_t i = s->at + 1; i < s->length; i++) {
        if (s->text[i] == '\\') {
            i++;
        } else if (s->text[i] == '"') {
            s->at = i + 1;
            return true;
        }
    }
    return false;
}

static bool is_scalar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

static bool is_literal_start(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == 't' || c == 'f' || c == 'n';
}

/* Skips the string, number or word at s->at; false if there is none. */
static bool skip_scalar(Scan *s)
{
    char c = s->text[s->at];
    if (c == '"')
        return skip_string(s);
    if (!is_literal_start(c))
        return false;
    while (s->at < s->length && is_scalar(s->text[s->at]))
        s->at++;
    return true;
}

static bool open_container(Scan *s)
{
    if (s->depth == FIND_JSON_MAX_DEPTH)
        return false;
    s->stack[s->depth++] =
        (Open){.start = s->at, .is_object = s->text[s->at] == '{', .expect = FIRST};
    s->at++;
    return true;
}

static bool close_container(Scan *s, Open *top)
{
    if (top->expect == AFTER_COMMA && !add_comma(s, top->comma)) {
        s->no_memory = true;
        return false;
    }
    s->at++;
    s->no_memory = !add_part(s, top->start, s->at);
    s->depth--;
    if (s->depth > 0)
        s->stack[s->depth - 1].expect = AFTER_VALUE;
    return !s->no_memory;
}

static bool read_value(Scan *s, Open *top)
{
    char c = s->text[s->at];
    if (c == '{' || c == '[')
        return open_container(s); /* closing it sets top->expect */
    top->expect = AFTER_VALUE;
    return skip_scalar(s);
}

static bool read_char(Scan *s, char c)
{
    if (s->text[s->at] != c)
        return false;
    s->at++;
    return true;
}

/* Reads one token of the innermost open container. False: it is not allowed here. */
static bool step(Scan *s)
{
    Open *top = &s->stack[s->depth - 1];
    char c = s->text[s->at];
    bool may_close = top->expect != AFTER_KEY && top->expect != VALUE;
    if (may_close && c == (top->is_object ? '}' : ']'))
        return close_container(s, top);
    switch (top->expect) {
    case AFTER_KEY: top->expect = VALUE; return read_char(s, ':');
    case VALUE: return read_value(s, top);
    case AFTER_VALUE:
        top->expect = AFTER_COMMA;
        top->comma = s->at;
        return read_char(s, ',');
    default:
        if (!top->is_object)
            return read_value(s, top);
        top->expect = AFTER_KEY;
        return c == '"' && skip_string(s);
    }
}

static void skip_blanks(Scan *s)
{
    while (s->at < s->length && s->text[s->at] != '\0' && strchr(" \t\r\n", s->text[s->at]))
        s->at++;
}

static void skip_to_bracket(Scan *s)
{
    while (s->at < s->length && s->text[s->at] != '{' && s->text[s->at] != '[')
        s->at++;
}

bool find_json(JsonParts *found, const Alloc *alloc, const char *text, size_t length)
{
    Scan *s = alloc_resize(alloc, NULL, 0, sizeof *s); /* 32 KB: too large for some stacks */
    if (s == NULL)
        return false;
    s->alloc = alloc;
    s->text = text;
    s->length = length;
    s->at = s->depth = 0;
    s->found = found;
    s->no_memory = false;
    while (s->at < length && !s->no_memory) {
        if (s->depth == 0) {
            if (found->count >= FIND_JSON_MAX_PARTS)
                break;
            skip_to_bracket(s);
            if (s->at < length)
                open_container(s);
            continue;
        }
        skip_blanks(s);
        if (s->at < length && !step(s))
            s->depth = 0;
    }
    bool ok = !s->no_memory;
    alloc_free(alloc, s, sizeof *s);
    return ok;
}

void find_json_free(JsonParts *found, const Alloc *alloc)
{
    alloc_free(alloc, found->parts, found->capacity * sizeof *found->parts);
    alloc_free(alloc, found->commas, found->comma_capacity * sizeof *found->commas);
    memset(found, 0, sizeof *found);
}
