/*
 * refusals.c -- requests refused by their headers: an ambiguous length or host, which a proxy in
 * front of us may have read the other way (request smuggling); and a body announced to be over the
 * limit by a client that waits for 100 Continue.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/parts.h"

#define ERROR(message, code)                                                                       \
    "{\"error\":{\"message\":\"" message                                                           \
    "\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"" code "\"}}"

static const char ambiguous[] =
    ERROR("the length or the host of the request can be read in two ways", "ambiguous_request");
static const char too_large[] = ERROR("the body is over the limit of bytes", "request_too_large");

typedef struct Seen {
    int lengths, hosts; /* headers that say so */
    long long length;
    bool is_odd; /* a name before a blank and a colon; an encoding of which the end is not known */
    bool asks_leave;
} Seen;

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    Seen *seen = cls;
    size_t length = strlen(name);
    (void)kind;
    if (length > 0 && strchr(" \t", name[length - 1]) != NULL) {
        seen->is_odd = true;
    } else if (strcasecmp(name, "host") == 0) {
        seen->hosts++;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        seen->lengths++;
        seen->is_odd |= value == NULL || strcasecmp(value, "chunked") != 0;
    } else if (strcasecmp(name, "content-length") == 0) {
        seen->lengths++;
        seen->length = value != NULL ? atoll(value) : 0;
    } else if (strcasecmp(name, "expect") == 0) {
        seen->asks_leave = true;
    }
    return MHD_YES;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *body,
                              size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

bool http_is_refused(const HttpServer *s, struct MHD_Connection *connection,
                     enum MHD_Result *result)
{
    Seen seen = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &seen);
    if (seen.lengths > 1 || seen.hosts > 1 || seen.is_odd)
        *result = refuse(connection, 400, ambiguous, sizeof ambiguous - 1);
    else if (seen.asks_leave && seen.length > s->options.max_body_bytes)
        *result = refuse(connection, 413, too_large, sizeof too_large - 1);
    else
        return false;
    return true;
}
