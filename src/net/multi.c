/*
 * multi.c -- libcurl's multi handles on the event loop: libcurl names the sockets and the timeout
 * it waits for, and we report what is ready.
 *
 * For each request libcurl walks all connections of the multi handle to that host. So a handle gets
 * at most CALLS_PER_MULTI calls, and a call goes to the first handle with room: with 10,000 calls
 * in flight each takes as long as with 100, and few calls share the same connections.
 */
#include <math.h>

#include "net/parts.h"

enum { CALLS_PER_MULTI = 128 };

struct Multi {
    CURLM *handle;
    Pump *pump;
    Multi *next;
    int64_t in_flight;
    double due; /* when libcurl's timer expires; INFINITY: not set */
};

/* ---- what libcurl waits for ---- */

static void on_ready(void *multi, int fd, int events)
{
    Multi *m = multi;
    int running, bits = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
                        (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
    CURLMcode code = curl_multi_socket_action(m->handle, fd, bits, &running);
    flow_take_ended(m->pump, m->handle);
    flow_settle(m->pump, code);
}

/* If on_change returned an error, libcurl would abort all transfers: only this one ends instead. */
static void lose_socket(Multi *m, CURL *easy)
{
    char *private = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
    if (private != NULL)
        ((Transfer *)(void *)private)->unwatched = m->pump->any_unwatched = true;
}

static int events_of(int what)
{
    return (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
}

/* libcurl wants to watch a socket for other events. */
static int on_change(CURL *easy, curl_socket_t fd, int what, void *multi, void *known)
{
    Multi *m = multi;
    LoopHandle *w = known;
    if (what == CURL_POLL_REMOVE) {
        loop_end(w);
        curl_multi_assign(m->handle, fd, NULL);
    } else if (w != NULL) {
        if (loop_watch_for(w, events_of(what)) != 0)
            lose_socket(m, easy);
    } else {
        w = loop_watch(fd, events_of(what), on_ready, m);
        curl_multi_assign(m->handle, fd, w);
        if (w == NULL)
            lose_socket(m, easy);
    }
    return 0;
}

static int on_timer(CURLM *handle, long timeout_ms, void *multi)
{
    Multi *m = multi;
    (void)handle;
    m->due = timeout_ms < 0 ? INFINITY : loop_now_ms() + (double)timeout_ms;
    flow_schedule(m->pump);
    return 0;
}

double multis_due(const Pump *p)
{
    double due = INFINITY;
    for (const Multi *m = p->multis; m != NULL; m = m->next)
        due = fmin(due, m->due);
    return due;
}

CURLMcode multis_serve_timers(Pump *p)
{
    CURLMcode code = CURLM_OK;
    int running;
    double now = loop_now_ms();
    for (Multi *m = p->multis; m != NULL && code == CURLM_OK; m = m->next) {
        if (now < m->due)
            continue;
        m->due = INFINITY;
        code = curl_multi_socket_action(m->handle, CURL_SOCKET_TIMEOUT, 0, &running);
        flow_take_ended(p, m->handle);
    }
    return code;
}

/* ---- handles ---- */

static void free_multi(Multi *m)
{
    curl_multi_cleanup(m->handle);
    alloc_free(&m->pump->alloc, m, sizeof *m);
}

static Multi *new_multi(Pump *p)
{
    Multi *m = alloc_resize(&p->alloc, NULL, 0, sizeof *m);
    if (m == NULL)
        return NULL;
    *m = (Multi){.handle = curl_multi_init(), .pump = p, .due = INFINITY};
    if (m->handle == NULL) {
        free_multi(m);
        return NULL;
    }
    int64_t room = p->max_concurrency < CALLS_PER_MULTI ? p->max_concurrency : CALLS_PER_MULTI;
    curl_multi_setopt(m->handle, CURLMOPT_MAXCONNECTS, (long)room);
    curl_multi_setopt(m->handle, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(m->handle, CURLMOPT_SOCKETFUNCTION, on_change);
    curl_multi_setopt(m->handle, CURLMOPT_SOCKETDATA, m);
    curl_multi_setopt(m->handle, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(m->handle, CURLMOPT_TIMERDATA, m);
    return m;
}

/* The first handle with room for a call, or a new one. */
static Multi *multi_with_room(Pump *p)
{
    Multi **at = &p->multis;
    while (*at != NULL && (*at)->in_flight >= CALLS_PER_MULTI)
        at = &(*at)->next;
    if (*at == NULL)
        *at = new_multi(p);
    return *at;
}

bool multi_add(Pump *p, Transfer *t)
{
    Multi *m = multi_with_room(p);
    if (m == NULL || curl_multi_add_handle(m->handle, t->easy) != CURLM_OK)
        return false;
    t->multi = m;
    m->in_flight++;
    return true;
}

void multi_remove(Transfer *t)
{
    if (t->multi == NULL)
        return;
    curl_multi_remove_handle(t->multi->handle, t->easy);
    t->multi->in_flight--;
    t->multi = NULL;
}

void multis_close(Pump *p)
{
    for (Multi *m = p->multis, *next; m != NULL; m = next) {
        next = m->next;
        free_multi(m);
    }
    p->multis = NULL;
}
