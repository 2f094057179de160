/*
 * sockets.c -- libcurl on the event loop: libcurl says which sockets and which time it waits for,
 * and is told what has come. However many calls are in flight, only what is ready is looked at.
 */
#include <math.h>

#include "net/parts.h"

static void on_ready(void *pump, int fd, int events)
{
    Pump *p = pump;
    int running, bits = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
                        (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
    pump_settle(p, curl_multi_socket_action(p->multi, fd, bits, &running));
}

/* libcurl would end all that it does if it were told of the failure: the one call ends instead. */
static void lose_socket(Pump *p, CURL *easy)
{
    char *mine = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &mine);
    if (mine != NULL)
        ((Transfer *)(void *)mine)->unwatched = p->any_unwatched = true;
}

static int events_of(int what)
{
    return (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
}

/* libcurl wants to know something else of a socket. */
static int on_change(CURL *easy, curl_socket_t fd, int what, void *pump, void *known)
{
    Pump *p = pump;
    LoopWatch *w = known;
    if (what == CURL_POLL_REMOVE) {
        loop_unwatch(w);
        curl_multi_assign(p->multi, fd, NULL);
    } else if (w != NULL) {
        if (loop_watch_for(w, events_of(what)) != 0)
            lose_socket(p, easy);
    } else {
        w = loop_watch(fd, events_of(what), on_ready, p);
        curl_multi_assign(p->multi, fd, w);
        if (w == NULL)
            lose_socket(p, easy);
    }
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *pump)
{
    Pump *p = pump;
    (void)multi;
    p->curl_due = timeout_ms < 0 ? INFINITY : loop_now_ms() + (double)timeout_ms;
    pump_schedule(p);
    return 0;
}

void sockets_open(Pump *p)
{
    p->curl_due = INFINITY;
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_change);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
}

CURLMcode sockets_serve_timer(Pump *p)
{
    int running;
    if (loop_now_ms() < p->curl_due)
        return CURLM_OK;
    p->curl_due = INFINITY;
    return curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}
