/*
 * server_reply.c -- replies of the test server: bodies, headers, pace, faults.
 */
#include <stdlib.h>
#include <string.h>

#include "server.h"

/* --- bodies in pieces --------------------------------------------------------------------- */

/* Pings and silence after the body. A suspended connection does not see its client leave, so
 * silence checks often. */
static ssize_t linger(Exchange *x, char *out, size_t room)
{
    size_t n = x->ping_text != NULL ? strlen(x->ping_text) : 0;
    if (!x->asleep) {
        exchange_sleep(x, x->ping > 0 ? (double)x->ping : 1000);
        return 0;
    }
    x->asleep = false;
    if (x->ping > 0 && n <= room) {
        memcpy(out, x->ping_text, n);
        return (ssize_t)n;
    }
    return 0;
}

static ssize_t send_more(void *cls, uint64_t position, char *out, size_t room)
{
    Exchange *x = cls;
    size_t at = (size_t)position;
    if (at >= x->cut || x->left)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (at >= x->size)
        return x->ping > 0 || x->hang ? linger(x, out, room) : MHD_CONTENT_READER_END_OF_STREAM;
    if (x->pace > 0 && at > 0 && !x->asleep) {
        exchange_sleep(x, (double)x->pace);
        return 0;
    }
    x->asleep = false;
    size_t n = x->size - at;
    n = n < room ? n : room;
    n = n < x->piece ? n : x->piece;
    n = n < x->cut - at ? n : x->cut - at;
    memcpy(out, x->data + at, n);
    return (ssize_t)n;
}

/* --- replies ------------------------------------------------------------------------------ */

static enum MHD_Result add_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind;
    text_addf(cls, "%s: %s\n", name, value != NULL ? value : "");
    return MHD_YES;
}

void reply_echo(const Exchange *x, Text *out)
{
    text_addf(out, "%s %s%s%s\n", x->method, x->url, *x->query ? "?" : "", x->query);
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, add_header, out);
    text_addf(out, "\n");
    text_add(out, x->body.data, x->body.size);
}

/* Streams of many deltas are made once. */
static const Text *shared_stream(Shape shape, const char *text, long deltas)
{
    static struct {
        Shape shape;
        long deltas;
        char *text;
        Text stream;
    } last;
    if (last.text == NULL || last.shape != shape || last.deltas != deltas ||
        strcmp(last.text, text) != 0) {
        free(last.text); /* the stream's bytes stay: a reply may still be sending them */
        last.text = copy_string(text);
        last.shape = shape;
        last.deltas = deltas;
        last.stream = (Text){0};
        canned_stream(shape, text, deltas, &last.stream);
    }
    return &last.stream;
}

/* Digits for each # of a text: the same for equal requests. (xorshift64, Marsaglia 2003) */
static void mix(const Exchange *x, char *text)
{
    unsigned long state = hash_bytes(x->body.data, x->body.size);
    for (; (text = strchr(text, '#')) != NULL; text++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *text = (char)('0' + (state >> 32) % 10);
    }
}

static void canned(Exchange *x, Shape shape, bool stream)
{
    char *text = steer_get(x->steer, "text", 0, NULL);
    long deltas = steer_number(x->steer, "deltas", 3);
    if (text != NULL && steer_number(x->steer, "mix", 0))
        mix(x, text);
    if (!stream) {
        canned_reply(shape, text != NULL ? text : "ok", &x->reply);
    } else if (deltas >= 100) {
        const Text *shared = shared_stream(shape, text != NULL ? text : "word ", deltas);
        x->data = shared->data;
        x->size = shared->size;
    } else {
        canned_stream(shape, text != NULL ? text : "word ", deltas, &x->reply);
    }
    free(text);
}

static void repeat_body(Exchange *x, long times)
{
    Text one = x->reply;
    x->reply = (Text){0};
    for (long i = 0; i < times; i++)
        text_add(&x->reply, one.data, one.size);
    text_free(&one);
}

static const char *make_body(Exchange *x)
{
    size_t n;
    Shape shape = shape_of_path(x->url);
    bool stream = shape_wants_stream(shape, x->body.data, x->body.size);
    const char *type = shape != SHAPE_NONE ? canned_type(shape, stream) : "text/plain";
    char *body = steer_get(x->steer, "body", 0, &n);
    char *file = steer_get(x->steer, "file", 0, NULL);
    if (body != NULL)
        text_add(&x->reply, body, n);
    else if (file != NULL)
        read_file(file, &x->reply);
    else if (shape == SHAPE_NONE || steer_number(x->steer, "echo", 0))
        reply_echo(x, &x->reply);
    else
        canned(x, shape, stream);
    free(body);
    free(file);
    long times = steer_number(x->steer, "repeat", 1);
    if (times != 1)
        repeat_body(x, times);
    if (x->data == NULL) {
        x->data = x->reply.data != NULL ? x->reply.data : "";
        x->size = x->reply.size;
    }
    return type;
}

static void add_headers(const Exchange *x, struct MHD_Response *r, const char *type)
{
    char *own_type = steer_get(x->steer, "type", 0, NULL);
    if (own_type == NULL || *own_type != '\0')
        MHD_add_response_header(r, "Content-Type", own_type != NULL ? own_type : type);
    free(own_type);
    char *header;
    for (int i = 0; (header = steer_get(x->steer, "h", i, NULL)) != NULL; i++) {
        char *colon = strchr(header, ':');
        if (colon != NULL) {
            *colon = '\0';
            MHD_add_response_header(r, header, colon + 1 + strspn(colon + 1, " "));
        }
        free(header);
    }
}

static void read_pacing(Exchange *x)
{
    x->piece = (size_t)steer_number(x->steer, "piece", 1 << 20);
    x->pace = steer_number(x->steer, "pace", 0);
    x->cut = (size_t)steer_number(x->steer, "cut", 1L << 40);
    x->hang = steer_number(x->steer, "hang", 0) != 0;
    x->ping = steer_number(x->steer, "ping", 0);
    x->ping_text = ": ping\n\n";
    if (x->ping == 0) {
        x->ping = steer_number(x->steer, "pingevent", 0);
        x->ping_text = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    }
}

enum MHD_Result reply_send(Exchange *x, unsigned status, const char *type)
{
    struct MHD_Response *r;
    read_pacing(x);
    bool endless = x->ping > 0 || x->hang;
    bool chunked = endless || steer_number(x->steer, "chunked", 0) || strstr(type, "stream") ||
                   strstr(type, "ndjson");
    if (chunked || x->pace > 0 || x->piece < x->size || x->cut < x->size)
        r = MHD_create_response_from_callback(chunked ? MHD_SIZE_UNKNOWN : x->size, 32768,
                                              send_more, x, NULL);
    else
        r = MHD_create_response_from_buffer(x->size, (void *)(size_t)x->data,
                                            MHD_RESPMEM_PERSISTENT);
    if (r == NULL)
        return MHD_NO;
    add_headers(x, r, type);
    enum MHD_Result result = MHD_queue_response(x->connection, status, r);
    MHD_destroy_response(r);
    return result;
}

/* Which bodies fail, and how, depends on their bytes alone: a run can be repeated. */
void reply_add_fault(Exchange *x)
{
    static const char *const faults[] = {"&status=500", "&status=503",
                                         "&status=429&h=retry-after-ms:5", "&close=1", "&cut=20"};
    unsigned long percent = (unsigned long)steer_number(x->steer, "fault", 0);
    unsigned long h = hash_bytes(x->body.data, x->body.size) >> 8;
    if (h % 100 >= percent)
        return;
    Text steer = {0};
    text_addf(&steer, "%s%s", x->steer, faults[h / 100 % 5]);
    if (h / 100 % 5 < 3) /* the first value of a key counts */
        text_addf(&steer, "&body={}");
    free(x->steer);
    x->steer = steer.data;
}

enum MHD_Result reply_answer(Exchange *x)
{
    if (x->left || steer_number(x->steer, "close", 0))
        return MHD_NO;
    const char *type = make_body(x);
    return reply_send(x, (unsigned)steer_number(x->steer, "status", 200), type);
}
