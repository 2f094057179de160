/* outline.c -- see outline.h. Scanning functions take [p, end) and return where they stopped. */
#include "core/outline.h"

#include <string.h>

#define MAX_LEADS  3
#define MAX_TRAILS 5

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
    return is_lower(c) || is_upper(c);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ASCII except letters, and the lead bytes of dashes, bullets and arrows (E2), emoji (F0) and the
 * emoji variation selector (EF). Letters of other scripts do not begin with these. */
static bool is_decoration(char c)
{
    unsigned char u = (unsigned char)c;
    if (u < 0x80)
        return !is_letter(c);
    return u < 0xC0 || u == 0xE2 || u == 0xEF || u == 0xF0;
}

static const char *skip(const char *p, const char *end, const char *set)
{
    while (p < end && *p != '\0' && strchr(set, *p) != NULL)
        p++;
    return p;
}

static const char *skip_blanks(const char *p, const char *end)
{
    return skip(p, end, " \t\r");
}

static const char *skip_emphasis(const char *p, const char *end)
{
    return skip(p, end, "*_`\"']");
}

static const char *skip_letters(const char *p, const char *end)
{
    while (p < end && is_letter(*p))
        p++;
    return p;
}

static bool starts_with(const char *p, const char *end, const char *prefix)
{
    size_t len = strlen(prefix);
    return (size_t)(end - p) >= len && memcmp(p, prefix, len) == 0;
}

/* Past one dash of any kind, or NULL. */
static const char *skip_dash(const char *p, const char *end)
{
    if (starts_with(p, end, "\xE2\x80\x93") || starts_with(p, end, "\xE2\x80\x94"))
        return p + 3;
    const char *q = skip(p, end, "-");
    return q > p ? q : NULL;
}

/* ---- markers ---- */

static OutlineWord find_word(const Outline *o, const char *word, const char *end)
{
    char lowered[OUTLINE_MAX_WORD];
    size_t len = (size_t)(end - word);
    if (len == 0 || len > sizeof lowered)
        return (OutlineWord){OUTLINE_UNKNOWN, 0};
    for (size_t i = 0; i < len; i++)
        lowered[i] = is_upper(word[i]) ? (char)(word[i] + ('a' - 'A')) : word[i];
    return o->words.find(o->words.ud, lowered, len);
}

/* Past what may come between a marker and its separator: ISSUE **#2 found (major)**: */
static const char *skip_qualifiers(const Outline *o, const char *p, const char *end,
                                   OutlineRole role)
{
    p = skip_emphasis(p, end);
    if (role != OUTLINE_VALUE) { /* there a number is the value */
        const char *q = skip(skip(p, end, " "), end, "#");
        const char *digits = q;
        while (q < end && is_digit(*q))
            q++;
        p = q > digits ? q : p;
    }
    for (int i = 0; i < MAX_TRAILS && p < end && *p == ' '; i++) {
        const char *q = skip_letters(p + 1, end);
        if (q == p + 1 || !o->words.trails(o->words.ud, p + 1, (size_t)(q - p - 1)))
            break;
        p = q;
    }
    p = skip_emphasis(p, end);
    const char *open = skip(p, end, " ");
    if (open < end && (*open == '(' || *open == '[')) {
        const char *close = memchr(open, *open == '(' ? ')' : ']', (size_t)(end - open));
        if (close != NULL)
            p = skip_emphasis(close + 1, end);
    }
    return p;
}

/* The text after a separator at `p`, or NULL if there is no separator. */
static const char *skip_separator(const char *p, const char *end, OutlineRole role, bool proper)
{
    const char *q = skip_blanks(p, end);
    if (q < end && (*q == ':' || *q == '|'))
        return skip_blanks(skip_emphasis(q + 1, end), end);
    if (starts_with(q, end, "\xEF\xBC\x9A")) /* the full-width colon */
        return skip_blanks(skip_emphasis(q + 3, end), end);
    if (proper && q > p) {
        const char *dash = skip_dash(q, end);
        if (dash != NULL && dash < end && *dash == ' ')
            return skip_blanks(dash, end);
    }
    if (role == OUTLINE_VALUE) { /* "SCORE 0.8", "score = 0.8", "score is 8/10" */
        q = skip(p, end, " =*_");
        if (starts_with(q, end, "is ") || starts_with(q, end, "of "))
            q = skip(q + 3, end, " *_");
        if (q > p && q < end && (is_digit(*q) || *q == '.'))
            return q;
    }
    return NULL;
}

typedef struct Marker {
    OutlineWord word;
    const char *content; /* the rest of its line; NULL: empty */
    bool capitals;
} Marker;

/* The marker word after leading words, from *p to *after; OUTLINE_UNKNOWN if there is none. */
static OutlineWord find_marker(const Outline *o, const char **p, const char **after,
                               const char *end)
{
    OutlineWord word = {OUTLINE_LEAD, 0};
    for (int leads = 0; word.role == OUTLINE_LEAD && leads <= MAX_LEADS; leads++) {
        if (leads > 0)
            *p = skip(*after, end, " _-");
        *after = skip_letters(*p, end);
        word = find_word(o, *p, *after);
    }
    if (word.role == OUTLINE_LEAD)
        word.role = OUTLINE_UNKNOWN;
    return word;
}

static bool all_capitals(const char *p, const char *end)
{
    while (p < end && is_upper(*p))
        p++;
    return p == end;
}

static Marker read_marker(const Outline *o, const char *line, const char *end)
{
    Marker m = {{OUTLINE_UNKNOWN, 0}, NULL, false};
    const char *p = line, *after;
    while (p < end && is_decoration(*p))
        p++;
    OutlineWord word = find_marker(o, &p, &after, end);
    if (word.role == OUTLINE_UNKNOWN)
        return m;
    /* A bare lower-case word needs a colon: it may just be the beginning of a wrapped line. */
    bool proper = is_upper(*p) || (!is_letter(*line) && *line != ' ' && *line != '\t');
    const char *rest = skip_qualifiers(o, after, end, word.role);
    const char *content = skip_separator(rest, end, word.role, proper);
    bool bare = skip_blanks(skip_emphasis(rest, end), end) == end;
    if (content == NULL && !(proper && bare))
        return m;
    m.word = word;
    m.capitals = all_capitals(p, after);
    if (content != NULL && skip_blanks(skip(content, end, "*_"), end) < end)
        m.content = content;
    return m;
}

/* ---- other lines ---- */

/* The length of a symbol used as a bullet: a dash, dot, arrow, box, tick or emoji. */
static size_t symbol_length(const char *p, const char *end)
{
    if (end - p < 3)
        return 0;
    unsigned char a = (unsigned char)p[0], b = (unsigned char)p[1], c = (unsigned char)p[2];
    size_t len = 0;
    if (a == 0xE2 && b == 0x80)
        len = c == 0x93 || c == 0x94 || c == 0xA2 || c == 0xA3 ? 3 : 0;
    else if (a == 0xE2)
        len = b == 0x86 || b == 0x96 || b == 0x97 || b == 0x9A || (b >= 0x9C && b <= 0x9E) ? 3 : 0;
    else if (a == 0xF0 && b == 0x9F && end - p >= 4)
        len = 4;
    if (len > 0 && starts_with(p + len, end, "\xEF\xB8\x8F")) /* shown in colour */
        len += 3;
    return len;
}

/* The text of a bulleted or numbered line that begins at `p`; NULL if it is neither. */
static const char *skip_bullet(const char *p, const char *end)
{
    size_t len = symbol_length(p, end);
    if (len > 0)
        return skip_blanks(p + len, end);
    const char *digits = skip(p, end, "*_("), *q = digits;
    while (q < end && is_digit(*q))
        q++;
    if (q > digits) {
        const char *close = skip(q, end, ".):]");
        q = close > q ? close : end;
    } else {
        q = p < end && (*p == '-' || *p == '*' || *p == '+') ? p + 1 : end;
    }
    return q < end && (*q == ' ' || *q == '\t') ? skip_blanks(q, end) : NULL;
}

/* "## Anything", or a line in bold. */
static bool is_heading(const char *p, const char *end)
{
    const char *q = skip(p, end, "#");
    if (q > p)
        return q < end && *q == ' ';
    if (!starts_with(p, end, "**"))
        return false;
    const char *close = memchr(p + 2, '*', (size_t)(end - p - 2));
    return close != NULL && close > p + 2 && starts_with(close, end, "**") &&
           skip(close + 2, end, ": \t\r") == end;
}

static bool is_rule(const char *p, const char *end)
{
    return skip(p, end, "-*_ \t\r") == end;
}

static bool is_fence(const char *p, const char *end)
{
    return starts_with(p, end, "```") || starts_with(p, end, "~~~");
}

/* ---- lines into items ---- */

static void end_item(Outline *o)
{
    if (o->item.from != NULL)
        o->done = o->item;
    o->item.from = NULL;
    o->gap = false;
}

static void begin_item(Outline *o, const char *from, const char *to, ptrdiff_t indent)
{
    end_item(o);
    o->item = (OutlineItem){o->open.section, from, to};
    o->indent = indent;
}

static void end_section(Outline *o)
{
    end_item(o);
    o->open = (OutlineWord){OUTLINE_UNKNOWN, 0};
}

/* The first non-blank text at or after `p`, on any line. */
static const char *next_text(const Outline *o, const char *p)
{
    return skip(p, o->end, " \t\r\n");
}

static void open_section(Outline *o, const Marker *m, ptrdiff_t indent, const char *end)
{
    end_section(o);
    o->loose = m->content == NULL;
    if (m->word.role == OUTLINE_VALUE) {
        const char *from = m->content != NULL ? m->content : next_text(o, end);
        const char *to = memchr(from, '\n', (size_t)(o->end - from));
        o->value = (OutlineItem){m->word.section, from, to != NULL ? to : o->end};
    } else if (m->word.role != OUTLINE_SKIP) {
        o->open = m->word;
        if (m->content != NULL || m->word.role == OUTLINE_TEXT)
            begin_item(o, m->content != NULL ? m->content : end, end, indent);
        o->on_marker_line = m->content != NULL;
    }
}

/* A line that is none of the above. */
static void read_text(Outline *o, const char *text, const char *end, ptrdiff_t indent)
{
    if (o->item.from != NULL && (!o->gap || indent > o->indent)) {
        o->item.to = end;
        o->gap = false;
    } else if (o->loose) {
        begin_item(o, text, end, indent);
    } else {
        end_section(o);
    }
}

/* "ISSUES: there are two of them:" is not an issue. */
static bool announces_list(const OutlineItem *item)
{
    const char *p = item->to;
    while (item->from != NULL && p > item->from && strchr(" \t\r*_:", p[-1]) != NULL)
        if (*--p == ':')
            return true;
    return false;
}

/* A line of a list, but not a marker. */
static void read_list_line(Outline *o, const char *line, const char *end)
{
    const char *text = skip(line, end, " \t\r>");
    ptrdiff_t indent = text - line;
    if (text == end) {
        o->gap = true;
        return;
    }
    const char *body = skip_bullet(text, end);
    if (body != NULL) {
        if (o->on_marker_line && announces_list(&o->item))
            o->item.from = NULL;
        o->loose = o->gap = o->on_marker_line = false;
        if (o->item.from != NULL && indent > o->indent)
            o->item.to = end;
        else
            begin_item(o, body, end, indent);
    } else if (is_heading(text, end)) {
        end_section(o);
    } else if (is_rule(text, end)) {
        end_item(o);
    } else if (!is_fence(text, end)) {
        read_text(o, text, end, indent);
    }
}

static void read_line(Outline *o, const char *line, const char *end)
{
    Marker m = read_marker(o, line, end);
    bool in_text = o->open.role == OUTLINE_TEXT;
    bool opens = m.word.role != OUTLINE_UNKNOWN;
    if (opens && (!in_text || m.capitals || m.word.role == OUTLINE_TEXT))
        open_section(o, &m, skip(line, end, " \t>") - line, end);
    else if (in_text)
        o->item.to = end;
    else if (o->open.role == OUTLINE_LIST)
        read_list_line(o, line, end);
}

Outline outline_begin(const char *text, size_t len, Vocabulary words)
{
    Outline o = {0};
    o.words = words;
    o.at = text;
    o.end = text + len;
    return o;
}

static bool pop_item(OutlineItem *slot, OutlineItem *item)
{
    if (slot->from == NULL)
        return false;
    *item = *slot;
    slot->from = NULL;
    return true;
}

bool outline_next(Outline *o, OutlineItem *item)
{
    for (;;) {
        if (pop_item(&o->done, item) || pop_item(&o->value, item))
            return true;
        if (o->at == NULL && o->item.from == NULL)
            return false;
        if (o->at == NULL) { /* the end of the text ends the last item */
            end_item(o);
            continue;
        }
        const char *newline = memchr(o->at, '\n', (size_t)(o->end - o->at));
        read_line(o, o->at, newline != NULL ? newline : o->end);
        o->at = newline != NULL ? newline + 1 : NULL;
    }
}
