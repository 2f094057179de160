/*
 * server.h -- the parts of the test server: what a request asks for, and what it gets.
 */
#ifndef PONDER_SPEC_SERVER_H
#define PONDER_SPEC_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* Text that grows. The test server stops when memory is short. */
typedef struct Text {
    char *data;
    size_t size, capacity;
} Text;

void text_add(Text *t, const char *bytes, size_t n);
void text_addf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *t);
char *copy_bytes(const char *bytes, size_t n);

/* --- steer.c: "key=value&key=value", percent-encoded
 * ---------------------------------------------- */

/* The decoded value of the `nth` (from 0) `key` of a query, in memory of its own, or NULL. */
char *steer_get(const char *query, const char *key, int nth, size_t *size);
long steer_number(const char *query, const char *key, long otherwise);

/* --- canned.c: replies shaped like those of providers
 * ------------------------------------------------ */

typedef enum Shape { SHAPE_NONE, SHAPE_OPENAI, SHAPE_ANTHROPIC, SHAPE_OLLAMA } Shape;

Shape shape_of_path(const char *path);
bool shape_wants_stream(Shape shape, const char *body, size_t size);

/* A whole reply, or a stream of `deltas` times `text`. */
void canned_reply(Shape shape, const char *text, Text *out);
void canned_stream(Shape shape, const char *text, long deltas, Text *out);
const char *canned_type(Shape shape, bool stream);

/* --- raw.c: a port that sends given bytes, torn as asked
 * --------------------------------------------- */

/* Listens on a loopback port of its own, in threads of its own; returns the port. */
int raw_start(void);
long raw_connections(void);

double now_ms(void);

#endif
