/*
 * server.c -- the HTTP server of the specs and benches: answers, streams and misbehaves as asked.
 *
 *      server [KEY CERT]      prints "PID PORT RAW_PORT [TLS_PORT]"; ends when its reader is gone
 *
 * What a request gets is steered by "key=value&key=value" (percent-encoded), taken from the first
 * of: a line that POST /_next queued; the header x-steer; the path segment after /s/; the query.
 *
 *      status=N        default 200
 *      type=T          content type; empty: none
 *      h=NAME:VALUE    a header, any number of times
 *      body=BYTES      the body
 *      file=PATH       the body
 *      repeat=N        the body N times
 *      text=T          the text of a canned reply
 *      mix=1           each # in it becomes a digit that depends on the request's body
 *      deltas=N        how many times, in a canned stream
 *      echo=1          the body is the request, where it would be canned
 *      chunked=1       no content-length
 *      delay=MS        wait before the headers
 *      jitter=MS       plus up to this long, depending on the request's body
 *      piece=N         send N bytes at one time
 *      pace=MS         wait between them
 *      ping=MS         after the body: a comment every MS, until the client leaves
 *      pingevent=MS    the same with an event named ping
 *      hang=1          after the body: silence, until the client leaves
 *      cut=N           N bytes of the body, then the connection closes
 *      close=1         closes without a reply
 *      fault=P         for P of 100 bodies, by their bytes: 500, 503, 429, close or cut
 *
 * /v1/chat/completions, /v1/messages and /api/chat answer as OpenAI, Anthropic and Ollama do, in
 * any directory; other paths answer with an echo. GET /_counters, GET /_bodies (how often each body
 * came, by its hash), GET /_request (the last request as an echo), POST /_next and POST /_reset are
 * for the spec. server_raw.c serves torn replies.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* ppoll */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

enum { LOOK_MS = 10 }; /* how often to check whether clients have left */

static struct {
    long requests, connections, in_flight, max_in_flight, aborted;
} counters;

static Text steers;       /* lines of POST /_next that are not used yet */
static Text last_request; /* the echo of the last one */
static Exchange *asleep;

/* --- bodies seen -------------------------------------------------------------------------- */

static struct Seen {
    unsigned long hash;
    long count;
} seen[1 << 18];
static long distinct, most_repeated;

static void note_body(const Exchange *x)
{
    size_t slots = sizeof seen / sizeof *seen;
    unsigned long h = hash_bytes(x->body.data, x->body.size);
    if (x->body.size == 0 || (size_t)distinct * 2 > slots)
        return;
    size_t i = h % slots;
    while (seen[i].hash != 0 && seen[i].hash != h)
        i = (i + 1) % slots;
    distinct += seen[i].hash == 0;
    seen[i].hash = h;
    if (++seen[i].count > most_repeated)
        most_repeated = seen[i].count;
}

/* {"HASH":count, ...}, the hashes hexadecimal. */
static void write_bodies(Text *out)
{
    const char *between = "";
    text_addf(out, "{");
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        if (seen[i].hash != 0) {
            text_addf(out, "%s\"%016lx\":%ld", between, seen[i].hash, seen[i].count);
            between = ",";
        }
    }
    text_addf(out, "}");
}

/* --- steering ----------------------------------------------------------------------------- */

static char *next_steer(void)
{
    if (steers.size == 0)
        return NULL;
    size_t n = strcspn(steers.data, "\n");
    char *line = copy_bytes(steers.data, n);
    size_t used = n + (steers.data[n] == '\n');
    memmove(steers.data, steers.data + used, steers.size - used + 1);
    steers.size -= used;
    return line;
}

static char *find_steer(const Exchange *x)
{
    char *line = next_steer();
    if (line != NULL)
        return line;
    const char *header = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "x-steer");
    if (header != NULL)
        return copy_string(header);
    if (strncmp(x->url, "/s/", 3) == 0)
        return copy_bytes(x->url + 3, strcspn(x->url + 3, "/"));
    return copy_string(x->query);
}

/* The path as sent, percent signs and all: MHD_get decodes too early for us. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls;
    Exchange *x = calloc(1, sizeof *x);
    if (x == NULL)
        abort();
    const char *query = strchr(uri, '?');
    x->connection = connection;
    x->url = copy_bytes(uri, query != NULL ? (size_t)(query - uri) : strlen(uri));
    x->query = copy_string(query != NULL ? query + 1 : "");
    return x;
}

/* --- suspending --------------------------------------------------------------------------- */

void exchange_sleep(Exchange *x, double ms)
{
    x->asleep = true;
    x->due = now_ms() + ms;
    x->next = asleep;
    asleep = x;
    MHD_suspend_connection(x->connection);
}

/* Whether the client of a suspended connection has left, which libmicrohttpd does not check. */
static bool client_left(const Exchange *x)
{
    char byte;
    int fd = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Resumes connections that are due or whose clients left; returns the ms until the next check. */
static double wake_exchanges(void)
{
    static double last_look;
    double now = now_ms(), wait = asleep != NULL ? LOOK_MS : 1000;
    bool look = now - last_look >= LOOK_MS;
    last_look = look ? now : last_look;
    for (Exchange **at = &asleep; *at != NULL;) {
        Exchange *x = *at;
        x->left = look && client_left(x);
        if (x->due > now && !x->left) {
            wait = x->due - now < wait ? x->due - now : wait;
            at = &x->next;
        } else {
            *at = x->next;
            MHD_resume_connection(x->connection);
            wait = 0; /* MHD_get_timeout does not know of it */
        }
    }
    return wait;
}

/* --- the server's own paths --------------------------------------------------------------- */

static void reset(void)
{
    long in_flight = counters.in_flight;
    memset(&counters, 0, sizeof counters);
    memset(seen, 0, sizeof seen);
    distinct = most_repeated = 0;
    counters.in_flight = counters.max_in_flight = in_flight;
    steers.size = 0;
}

static enum MHD_Result answer_own(Exchange *x)
{
    x->steer = copy_string("");
    if (strcmp(x->url, "/_counters") == 0)
        text_addf(&x->reply,
                  "{\"requests\":%ld,\"connections\":%ld,\"in_flight\":%ld,\"max_in_flight\":%ld,"
                  "\"aborted\":%ld,\"distinct_bodies\":%ld,\"most_repeated\":%ld,"
                  "\"raw_requests\":%ld}",
                  counters.requests, counters.connections, counters.in_flight,
                  counters.max_in_flight, counters.aborted, distinct, most_repeated,
                  raw_requests());
    else if (strcmp(x->url, "/_bodies") == 0)
        write_bodies(&x->reply);
    else if (strcmp(x->url, "/_request") == 0)
        text_add(&x->reply, last_request.data, last_request.size);
    else if (strcmp(x->url, "/_next") == 0)
        text_add(&steers, x->body.data, x->body.size);
    else if (strcmp(x->url, "/_reset") == 0)
        reset();
    x->data = x->reply.data != NULL ? x->reply.data : "";
    x->size = x->reply.size;
    return reply_send(x, 200, "text/plain");
}

/* --- libmicrohttpd's callbacks ------------------------------------------------------------ */

static void begin(Exchange *x, const char *method)
{
    x->method = copy_string(method);
    x->own = strncmp(x->url, "/_", 2) == 0;
    if (x->own)
        return;
    counters.requests++;
    if (++counters.in_flight > counters.max_in_flight)
        counters.max_in_flight = counters.in_flight;
}

/* Handles a complete request. Called again after a delay. */
static enum MHD_Result respond(Exchange *x)
{
    if (x->own)
        return answer_own(x);
    if (x->steer != NULL) {
        x->asleep = false;
        return reply_answer(x);
    }
    x->steer = find_steer(x);
    note_body(x);
    last_request.size = 0;
    reply_echo(x, &last_request);
    reply_add_fault(x);
    long delay = steer_number(x->steer, "delay", 0), jitter = steer_number(x->steer, "jitter", 0);
    if (jitter > 0)
        delay +=
            (long)((hash_bytes(x->body.data, x->body.size) >> 8) % (unsigned long)(jitter + 1));
    if (delay == 0)
        return reply_answer(x);
    exchange_sleep(x, (double)delay);
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)version, (void)connection;
    Exchange *x = *con_cls;
    if (x->method == NULL) {
        begin(x, method);
    } else if (*size > 0) {
        text_add(&x->body, bytes, *size);
        *size = 0;
    } else {
        return respond(x);
    }
    return MHD_YES;
}

static void on_end(void *cls, struct MHD_Connection *connection, void **con_cls,
                   enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection;
    Exchange *x = *con_cls;
    if (x == NULL)
        return;
    if (x->method != NULL && !x->own) {
        counters.in_flight--;
        counters.aborted += code != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    }
    free(x->method);
    free(x->url);
    free(x->query);
    free(x->steer);
    text_free(&x->body);
    text_free(&x->reply);
    free(x);
    *con_cls = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)cls, (void)connection, (void)socket_context;
    counters.connections += code == MHD_CONNECTION_NOTIFY_STARTED;
}

/* --- main ------------------------------------------------------------------------------- */

static struct MHD_Daemon *start(unsigned flags, const char *key, const char *cert)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(size_t)key},
                                   {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(size_t)cert},
                                   {MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, NULL,
        MHD_OPTION_SOCK_ADDR, &loopback, MHD_OPTION_URI_LOG_CALLBACK, on_uri, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        NULL, MHD_OPTION_CONNECTION_LIMIT, 16000U, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)128 * 1024, MHD_OPTION_ARRAY, key != NULL ? tls : tls + 2, MHD_OPTION_END);
    if (daemon == NULL) {
        fputs("server: could not start\n", stderr);
        exit(1);
    }
    return daemon;
}

static unsigned port_of(struct MHD_Daemon *daemon)
{
    return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

/* How long libmicrohttpd can wait. */
static double patience(struct MHD_Daemon *daemon, double wait)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    if (MHD_get_timeout(daemon, &timeout) == MHD_YES && (double)timeout < wait)
        return (double)timeout;
    return wait;
}

/* Until nobody reads our output any more: a server does not outlive its spec. */
static void serve(struct MHD_Daemon **daemons, int count)
{
    struct pollfd fds[3] = {{.fd = STDOUT_FILENO}};
    for (int i = 0; i < count; i++) {
        int fd = MHD_get_daemon_info(daemons[i], MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
        fds[i + 1] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    while (fds[0].revents == 0) {
        double wait = wake_exchanges();
        for (int i = 0; i < count; i++)
            wait = patience(daemons[i], wait);
        struct timespec t = {(time_t)(wait / 1e3), (long)(fmod(wait, 1e3) * 1e6)};
        ppoll(fds, (nfds_t)count + 1, &t, NULL);
        for (int i = 0; i < count; i++)
            MHD_run(daemons[i]);
    }
}

int main(int argc, char **argv)
{
    Text key = {0}, cert = {0};
    int count = 1;
    signal(SIGPIPE, SIG_IGN);
    struct MHD_Daemon *daemons[2] = {start(0, NULL, NULL)};
    printf("%ld %u %d", (long)getpid(), port_of(daemons[0]), raw_start());
    if (argc == 3) {
        read_file(argv[1], &key);
        read_file(argv[2], &cert);
        daemons[count++] = start(MHD_USE_TLS, key.data, cert.data);
        printf(" %u", port_of(daemons[1]));
    }
    puts("");
    fflush(stdout);
    serve(daemons, count);
    return 0;
}
