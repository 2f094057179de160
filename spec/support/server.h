/*
 * server.h -- the parts of the test server: what a request asks for, and what it gets.
 */
#ifndef PONDER_SPEC_SERVER_H
#define PONDER_SPEC_SERVER_H

#include <microhttpd.h>
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
char *copy_string(const char *s);
void read_file(const char *path, Text *out);
unsigned long hash_bytes(const char *bytes, size_t n);

/* --- server_text.c too: "key=value&key=value", percent-encoded ---------------------------- */

/* The decoded value of the `nth` (from 0) `key` of a query, in memory of its own, or NULL. */
char *steer_get(const char *query, const char *key, int nth, size_t *size);
long steer_number(const char *query, const char *key, long otherwise);

/* --- server.c: requests ------------------------------------------------------------------- */

/* One request from its headers to the end of its reply. */
typedef struct Exchange {
    struct MHD_Connection *connection;
    char *method, *url, *query, *steer; /* steer is NULL until the request is there */
    Text body;
    bool own; /* of /_..., not counted */
    /* the reply */
    const char *data; /* what is sent; `reply` or shared */
    Text reply;
    size_t size, piece, cut;
    long pace, ping;
    const char *ping_text;
    bool hang, asleep, left; /* left: by its client */
    double due;              /* while suspended: when to resume */
    struct Exchange *next;   /* suspended ones */
} Exchange;

/* Suspends the connection; its handler or content reader is called again later. */
void exchange_sleep(Exchange *x, double ms);

/* --- server_reply.c ----------------------------------------------------------------------- */

/* Sends x->data as x->steer says. */
enum MHD_Result reply_send(Exchange *x, unsigned status, const char *type);

/* Makes and sends what x->steer asks for. */
enum MHD_Result reply_answer(Exchange *x);

/* Lets some bodies fail: changes x->steer. */
void reply_add_fault(Exchange *x);

/* Appends the request as text. */
void reply_echo(const Exchange *x, Text *out);

/* --- server_canned.c: replies shaped like those of providers ------------------------------ */

typedef enum Shape { SHAPE_NONE, SHAPE_OPENAI, SHAPE_ANTHROPIC, SHAPE_OLLAMA } Shape;

Shape shape_of_path(const char *path);
bool shape_wants_stream(Shape shape, const char *body, size_t size);

/* A whole reply, or a stream of `deltas` times `text`. */
void canned_reply(Shape shape, const char *text, Text *out);
void canned_stream(Shape shape, const char *text, long deltas, Text *out);
const char *canned_type(Shape shape, bool stream);

/* --- server_raw.c: a port that sends given bytes, torn as asked --------------------------- */

/* Listens on a loopback port of its own, in threads of its own; returns the port. */
int raw_start(void);
long raw_requests(void);

double now_ms(void);

#endif
