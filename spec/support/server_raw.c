/*
 * server_raw.c -- a port that answers one request with the bytes that its query names:
 *
 *      reply=BYTES   percent-encoded, sent as they are
 *      piece=N       at most N bytes at one time
 *      pace=MS       wait between two pieces
 *      delay=MS      wait before the first
 *      end=close     close when all is sent (the default)
 *      end=reset     reset the connection instead
 *      end=hang      stay silent until the client leaves
 *      end=drop      wait for another request and close without a reply
 *
 * A client that begins with TLS is reset.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

static atomic_long requests;

long raw_requests(void)
{
    return requests;
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0)
        nanosleep(&t, NULL);
}

enum { TLS_HANDSHAKE = 0x16 }; /* the first byte of a connection that begins with TLS */

/* Reads a request with its body; false when the client left or speaks TLS. */
static bool read_request(int fd, Text *in)
{
    const char *end = NULL;
    size_t wanted = 0;
    char bytes[4096];
    while (end == NULL || in->size < wanted) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return false;
        text_add(in, bytes, (size_t)n);
        if (in->data[0] == TLS_HANDSHAKE)
            return false;
        end = strstr(in->data, "\r\n\r\n");
        const char *length = strstr(in->data, "Content-Length: ");
        if (end != NULL)
            wanted = (size_t)(end + 4 - in->data) +
                     (length != NULL ? strtoul(length + 16, NULL, 10) : 0);
    }
    return true;
}

static bool send_pieces(int fd, const char *bytes, size_t size, size_t piece, long pace)
{
    for (size_t at = 0; at < size;) {
        size_t n = size - at < piece ? size - at : piece;
        if (send(fd, bytes + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            return false;
        at += n;
        if (at < size)
            pause_ms(pace);
    }
    return true;
}

static void end_connection(int fd, const char *how)
{
    char byte;
    if (how != NULL && strcmp(how, "reset") == 0) {
        pause_ms(20); /* what was sent arrives first */
        struct linger now = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    } else if (how != NULL && strcmp(how, "drop") == 0) {
        requests += recv(fd, &byte, 1, 0) > 0;
    } else if (how != NULL && strcmp(how, "hang") == 0) {
        while (recv(fd, &byte, 1, 0) > 0)
            continue;
    } else {
        shutdown(fd, SHUT_WR);
        while (recv(fd, &byte, 1, 0) > 0)
            continue;
    }
    close(fd);
}

static void *serve(void *arg)
{
    int fd = (int)(long)arg;
    Text in = {0};
    if (!read_request(fd, &in)) {
        end_connection(fd, "reset");
        text_free(&in);
        return NULL;
    }
    requests++;
    in.data[strcspn(in.data, "\r")] = '\0';
    char *query = strchr(in.data, '?');
    if (query != NULL && strrchr(query, ' ') != NULL)
        *strrchr(query, ' ') = '\0';
    query = query != NULL ? query + 1 : in.data + strlen(in.data);
    size_t size = 0;
    char *reply = steer_get(query, "reply", 0, &size);
    char *end = steer_get(query, "end", 0, NULL);
    pause_ms(steer_number(query, "delay", 0));
    if (send_pieces(fd, reply != NULL ? reply : "", size,
                    (size_t)steer_number(query, "piece", 1 << 20), steer_number(query, "pace", 0)))
        end_connection(fd, end);
    else
        close(fd);
    free(reply);
    free(end);
    text_free(&in);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = (int)(long)arg;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pthread_t thread;
        if (fd < 0)
            continue;
        if (pthread_create(&thread, &detached, serve, (void *)(long)fd) != 0)
            close(fd);
    }
    return NULL;
}

int raw_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, accept_all, (void *)(long)listener) != 0)
        abort();
    return ntohs(address.sin_port);
}
