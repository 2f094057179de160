/*
 * server.c -- libmicrohttpd's daemon on the loop, and the deadlines of its connections; see
 * server.h, and requests.c for requests.
 *
 * The loop watches the daemon's epoll descriptor, and a timer serves libmicrohttpd's own timeouts.
 * Without epoll (loop/system.h) the daemon runs every POLL_MS, and at once where there is something
 * to write, on descriptors below 1024.
 */
#define _DEFAULT_SOURCE /* getentropy */
#include "http/server.h"

#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/parts.h"
#include "loop/system.h"

enum {
    CHECK_MS = 500,
    POLL_MS = 5,
    HEAD_ROOM = 2 /* times the limit, so that a head over the limit can be read and refused by us */
};

/* ---- running ---- */

static void run(void *server)
{
    HttpServer *s = server;
    MHD_UNSIGNED_LONG_LONG timeout;
    MHD_run(s->daemon);
    double ms = MHD_get_timeout(s->daemon, &timeout) == MHD_YES ? (double)timeout : -1;
    if (!SYSTEM_IS_LINUX)
        ms = s->runs > 0 ? 0 : ms >= 0 && ms < POLL_MS ? ms : POLL_MS;
    s->runs -= s->runs > 0;
    loop_timer_set(s->run_timer, ms);
}

static void on_ready(void *server, int fd, int events)
{
    (void)fd, (void)events;
    run(server);
}

/* ---- connections ---- */

static void tell_late(const Peer *p)
{
    static const char format[] =
        "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "x-request-id: %016llx\r\nContent-Length: 119\r\n\r\n"
        "{\"error\":{\"message\":\"the request did not arrive in time\","
        "\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"timeout\"}}";
    char text[sizeof format + 16];
    unsigned long long id = 0;
    getentropy(&id, sizeof id);
    int size = snprintf(text, sizeof text, format, id);
    send(p->fd, text, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_deadlines_due(void *server)
{
    HttpServer *s = server;
    double now = loop_now_ms();
    for (Peer *p = LIST_FIRST(&s->peers); p != NULL; p = LIST_NEXT(p, link)) {
        if (p->deadline_ms > now)
            continue;
        p->deadline_ms = INFINITY;
        if (!p->is_answered)
            tell_late(p);
        shutdown(p->fd, SHUT_RDWR); /* libmicrohttpd reads an end, and closes */
    }
    if (!LIST_EMPTY(&s->peers))
        loop_timer_set(s->deadline_timer, CHECK_MS);
}

static void note_address(Peer *p, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    socklen_t size = address == NULL                  ? 0
                     : address->sa_family == AF_INET  ? sizeof(struct sockaddr_in)
                     : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                      : 0;
    if (size == 0 ||
        getnameinfo(address, size, p->address, sizeof p->address, NULL, 0, NI_NUMERICHOST) != 0)
        strcpy(p->address, "unix");
}

static void add_peer(HttpServer *s, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    Peer *p = alloc_resize(&s->alloc, NULL, 0, sizeof *p);
    *context = p;
    if (p == NULL)
        return; /* new_request will fail and close it */
    *p = (Peer){.fd = info->connect_fd,
                .deadline_ms = loop_now_ms() + (double)s->options.header_timeout_ms};
    note_address(p, connection);
    if (LIST_EMPTY(&s->peers))
        loop_timer_set(s->deadline_timer, CHECK_MS);
    LIST_INSERT_HEAD(&s->peers, p, link);
    s->stats.connections++;
}

static void on_connection(void *server, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    HttpServer *s = server;
    Peer *p = *context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        add_peer(s, connection, context);
    } else if (p != NULL) {
        LIST_REMOVE(p, link);
        alloc_free(&s->alloc, p, sizeof *p);
        s->stats.connections--;
    }
}

/* Called when the first line of a request has arrived. */
static void *on_uri(void *server, const char *uri, struct MHD_Connection *connection)
{
    HttpServer *s = server;
    Peer *p = http_peer_of(connection);
    if (p == NULL)
        return NULL;
    p->uri = uri;
    p->uri_bytes = strlen(uri);
    p->has_nul = strstr(uri, "%00") != NULL;
    p->has_blank = strpbrk(uri, " \t") != NULL;
    if (!isfinite(p->deadline_ms))
        p->deadline_ms = loop_now_ms() + (double)s->options.header_timeout_ms;
    return NULL;
}

/* ---- opening and closing ---- */

static void ignore_message(void *cls, const char *format, va_list arguments)
{
    (void)cls, (void)format, (void)arguments;
}

static bool start_daemon(HttpServer *s)
{
    const HttpOptions *o = &s->options;
    s->daemon = MHD_start_daemon(
        (SYSTEM_IS_LINUX ? MHD_USE_EPOLL : 0) | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, http_on_request, s, MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL,
        MHD_OPTION_LISTEN_SOCKET, o->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->max_connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)o->max_connections_per_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        HEAD_ROOM * (size_t)o->max_header_bytes, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((o->idle_timeout_ms + 999) / 1000), MHD_OPTION_NOTIFY_COMPLETED,
        http_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
        MHD_OPTION_URI_LOG_CALLBACK, on_uri, s, MHD_OPTION_END);
    if (s->daemon == NULL)
        return false;
    if (!SYSTEM_IS_LINUX)
        return loop_timer_set(s->run_timer, 0), true;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    s->watch = loop_watch(info->epoll_fd, LOOP_READ, on_ready, s);
    return s->watch != NULL;
}

HttpServer *http_open(const Alloc *alloc, const HttpOptions *options)
{
    HttpServer *s = alloc_resize(alloc, NULL, 0, sizeof *s);
    if (s == NULL) {
        close(options->listen_fd);
        return NULL;
    }
    *s = (HttpServer){.alloc = *alloc, .options = *options};
    loop_port_open(&s->port);
    s->run_timer = loop_timer(run, s);
    s->deadline_timer = loop_timer(on_deadlines_due, s);
    if (options->keys != NULL)
        s->keys = alloc_copy(alloc, options->keys, strlen(options->keys) + 1);
    if ((options->keys != NULL && s->keys == NULL) || s->run_timer == NULL ||
        s->deadline_timer == NULL || !start_daemon(s)) {
        if (s->daemon == NULL)
            close(options->listen_fd);
        http_close(s);
        return NULL;
    }
    return s;
}

void http_close(HttpServer *s)
{
    loop_end(s->watch);
    if (s->daemon != NULL) {
        for (size_t i = 0; i < s->slots.count; i++) /* it stops only if none is suspended */
            if (s->slots.items[i] != NULL)
                http_fail(s->slots.items[i]);
        MHD_run(s->daemon);
        MHD_run(s->daemon); /* without epoll the first only notices what is resumed */
        MHD_stop_daemon(s->daemon);
    }
    for (size_t i = 0; i < s->slots.count; i++)
        if (s->slots.items[i] != NULL)
            http_free_request(s->slots.items[i]);
    loop_end(s->run_timer);
    loop_end(s->deadline_timer);
    loop_unpost(&s->port);
    vec_free(&s->slots, &s->alloc);
    vec_free(&s->free_slots, &s->alloc);
    vec_free(&s->queue, &s->alloc);
    vec_free(&s->news, &s->alloc);
    if (s->keys != NULL)
        alloc_free(&s->alloc, s->keys, strlen(s->keys) + 1);
    Alloc alloc = s->alloc;
    alloc_free(&alloc, s, sizeof *s);
}

void http_stop_listening(HttpServer *s)
{
    MHD_socket fd = MHD_quiesce_daemon(s->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

HttpStats http_stats(const HttpServer *s)
{
    return s->stats;
}
