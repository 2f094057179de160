/*
 * sockets.c -- what libcurl waits for: its sockets and its timer. libcurl tells of each change, so
 * that a wait is one poll and only what is ready is looked at, however many calls are in flight.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>

#include "net/parts.h"

enum {
    FIRST = 1,        /* list[0] is what interrupts a wait */
    PER_TRANSFER = 5, /* no transfer has more sockets (libcurl's MAX_SOCKETSPEREASYHANDLE) */
};

static void remember_place(Pump *p, size_t place)
{
    curl_multi_assign(p->multi, p->sockets.list[place].fd, (void *)(uintptr_t)place);
}

static void forget_socket(Pump *p, size_t place)
{
    Sockets *s = &p->sockets;
    s->list[place] = s->list[--s->count];
    if (place < s->count)
        remember_place(p, place);
}

static short events_of(int what)
{
    return (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));
}

/* libcurl wants to know something else of a socket. There is room: see sockets_reserve. */
static int on_change(CURL *easy, curl_socket_t fd, int what, void *pump, void *known)
{
    Pump *p = pump;
    Sockets *s = &p->sockets;
    size_t place = (size_t)(uintptr_t)known; /* 0: a new one */
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (place != 0)
            forget_socket(p, place);
        return 0;
    }
    if (place == 0) {
        if (s->count == s->capacity)
            return -1;
        place = s->count++;
        s->list[place] = (struct pollfd){.fd = fd};
        remember_place(p, place);
    }
    s->list[place].events = events_of(what);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *pump)
{
    Pump *p = pump;
    (void)multi;
    p->sockets.due = timeout_ms < 0 ? INFINITY : net_now() + (double)timeout_ms;
    return 0;
}

bool sockets_open(Pump *p)
{
    p->sockets.due = INFINITY;
    p->sockets.count = FIRST;
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_change);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    return sockets_reserve(p, 1);
}

/* libcurl takes a socket that cannot be watched for the end of everything. */
bool sockets_reserve(Pump *p, int64_t transfers)
{
    Sockets *s = &p->sockets;
    size_t wanted = FIRST + PER_TRANSFER * (size_t)transfers, unit = sizeof *s->list;
    if (wanted <= s->capacity)
        return true;
    size_t capacity = s->capacity * 2 > wanted ? s->capacity * 2 : wanted;
    struct pollfd *list = alloc_resize(&p->alloc, s->list, s->capacity * unit, capacity * unit);
    if (list == NULL)
        return false;
    s->list = list;
    s->capacity = capacity;
    return true;
}

void sockets_free(Pump *p)
{
    Sockets *s = &p->sockets;
    alloc_free(&p->alloc, s->list, s->capacity * sizeof *s->list);
    s->list = NULL;
}

/* A socket that broke is ready for whatever was wanted of it: the attempt says what is wrong. */
static int ready_for(const struct pollfd *fd)
{
    short broken = fd->revents & (POLLERR | POLLHUP);
    short ready = (short)(broken ? fd->events : fd->revents);
    return (ready & POLLIN ? CURL_CSELECT_IN : 0) | (ready & POLLOUT ? CURL_CSELECT_OUT : 0) |
           (fd->revents & POLLNVAL ? CURL_CSELECT_ERR : 0);
}

/* From the last to the first: the place of a socket that goes is taken by one already seen. */
static CURLMcode serve_sockets(Pump *p)
{
    CURLMcode code = CURLM_OK;
    int ready = p->sockets.ready;
    for (size_t i = p->sockets.count; i-- > FIRST && ready > 0;) {
        struct pollfd *fd = i < p->sockets.count ? &p->sockets.list[i] : NULL;
        if (fd == NULL || fd->revents == 0)
            continue;
        int bits = ready_for(fd), running;
        fd->revents = 0;
        ready--;
        code = curl_multi_socket_action(p->multi, fd->fd, bits, &running);
        if (code != CURLM_OK)
            break;
    }
    return code;
}

CURLMcode sockets_serve_timer(Pump *p)
{
    int running;
    if (net_now() < p->sockets.due)
        return CURLM_OK;
    p->sockets.due = INFINITY;
    return curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

CURLMcode sockets_wait(Pump *p, double wait_ms, bool *interrupted)
{
    Sockets *s = &p->sockets;
    wait_ms = ceil(fmax(0, fmin(wait_ms, s->due - net_now())));
    int fd = p->options.interrupt_fd != NULL && wait_ms > 0 ? p->options.interrupt_fd() : -1;
    s->list[0] = (struct pollfd){.fd = fd, .events = POLLIN}; /* poll passes over -1 */
    s->ready = poll(s->list, s->count, (int)wait_ms);
    *interrupted = s->list[0].revents != 0 || (s->ready < 0 && errno == EINTR);
    CURLMcode code = s->ready > 0 ? serve_sockets(p) : CURLM_OK;
    return code == CURLM_OK ? sockets_serve_timer(p) : code;
}
