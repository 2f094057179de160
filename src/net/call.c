/*
 * call.c -- a request as one block of memory: the struct, the header nodes, the strings, the body.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/parts.h"

/* The unused part of a block. */
typedef struct Cursor {
    char *at;
} Cursor;

static const char *put(Cursor *c, const char *bytes, size_t n)
{
    char *start = c->at;
    if (n > 0)
        memcpy(start, bytes, n);
    c->at += n;
    return start;
}

static const char *put_string(Cursor *c, const char *s)
{
    return s != NULL ? put(c, s, strlen(s) + 1) : NULL;
}

static size_t string_size(const char *s)
{
    return s != NULL ? strlen(s) + 1 : 0;
}

/* Whether a header line is for `name` (in lower case). */
static bool header_is(const char *line, const char *name)
{
    size_t n = strlen(name);
    return strncasecmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ';');
}

static bool has_header(const Call *c, const char *name)
{
    for (const struct curl_slist *h = c->headers; h != NULL; h = h->next)
        if (header_is(h->data, name))
            return true;
    return false;
}

/* To libcurl "name:" means "do not send": by default it adds Expect, and a form's content type. */
static char NO_EXPECT[] = "Expect:";
static char NO_TYPE[] = "Content-Type:";

static int by_name(const void *a, const void *b)
{
    return strcasecmp(((const struct curl_slist *)a)->data, ((const struct curl_slist *)b)->data);
}

/* Sorts headers by name, so that equal requests are equal bytes. */
static void link_headers(Call *c, struct curl_slist *nodes, const char *lines, size_t count)
{
    char *line = (char *)(size_t)lines; /* libcurl's struct lacks a const */
    for (size_t i = 0; i < count; i++) {
        nodes[i].data = line;
        line += strlen(line) + 1;
    }
    if (count > 1)
        qsort(nodes, count, sizeof *nodes, by_name);
    nodes[count].data = NO_EXPECT;
    nodes[count + 1].data = NO_TYPE;
    for (size_t i = 0; i < count + 2; i++)
        nodes[i].next = &nodes[i + 1];
    nodes[count].next = NULL;
    c->headers = nodes;
    if (!has_header(c, "content-type"))
        nodes[count].next = &nodes[count + 1];
    nodes[count + 1].next = NULL;
}

Call *call_new(const Alloc *a, const Request *r)
{
    size_t lines = 0;
    for (size_t i = 0; i < r->headers_size; i++)
        lines += r->headers[i] == '\0';
    size_t nodes_size = (lines + 2) * sizeof(struct curl_slist);
    const char *method = r->method != NULL ? r->method : r->body != NULL ? "POST" : "GET";
    size_t size = sizeof(Call) + nodes_size + r->headers_size + string_size(r->url) +
                  string_size(method) + string_size(r->ca_file) + string_size(r->proxy);
    if (r->body_size > SIZE_MAX / 2 - size)
        return NULL;
    size += r->body_size;
    Call *c = alloc_resize(a, NULL, 0, size);
    if (c == NULL)
        return NULL;
    struct curl_slist *nodes = (struct curl_slist *)(c + 1);
    Cursor at = {(char *)nodes + nodes_size};
    *c = (Call){.block_size = size, .stream = r->stream, .limits = r->limits};
    const char *header_lines = put(&at, r->headers, r->headers_size);
    c->url = put_string(&at, r->url);
    c->method = put_string(&at, method);
    c->ca_file = put_string(&at, r->ca_file);
    c->proxy = put_string(&at, r->proxy);
    c->body_size = r->body_size;
    c->body = r->body != NULL ? put(&at, r->body, r->body_size) : NULL;
    link_headers(c, nodes, header_lines, lines);
    return c;
}

void call_free(const Alloc *a, Call *c)
{
    if (c != NULL)
        alloc_free(a, c, c->block_size);
}

static bool is_harmless(const char *line)
{
    static const char *const names[] = {"accept", "content-type", "user-agent", "expect"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (header_is(line, names[i]))
            return true;
    return false;
}

void call_drop_secret_headers(Call *c)
{
    for (struct curl_slist **at = &c->headers; *at != NULL;) {
        if (is_harmless((*at)->data))
            at = &(*at)->next;
        else
            *at = (*at)->next;
    }
}

void call_become_get(Call *c)
{
    c->method = "GET";
    c->body = NULL;
    c->body_size = 0;
    for (struct curl_slist *h = c->headers; h != NULL; h = h->next)
        if (header_is(h->data, "content-type"))
            h->data = NO_TYPE;
}
