/*
 * flow.c -- how calls move: from the queue to libcurl, and to the ended ones; see pump.h.
 *
 * libcurl's multi handle is on the event loop: libcurl names the sockets and the timeout it waits
 * for, and we report what is ready.
 */
#include <math.h>

#include "net/parts.h"

/* ---- transfers: active, ended ---- */

void flow_retire(Pump *p, Transfer *t)
{
    Call *c = t->call;
    curl_multi_remove_handle(p->multi, t->easy);
    TAILQ_REMOVE(&p->active, t, link);
    p->stats.in_flight--;
    p->stats.connections += t->result.new_connections;
    c->host->in_flight--;
    host_drop_if_idle(p, c->host);
    c->host = NULL;
}

void flow_end(Pump *p, Transfer *t)
{
    flow_retire(p, t);
    TAILQ_INSERT_TAIL(&p->ended, t, link);
}

/* Starts the first call of a host's queue. False: out of memory for a transfer. */
static bool start_call(Pump *p, NetHost *h, double now)
{
    Call *c = TAILQ_FIRST(&h->queue);
    Transfer *t = transfer_new(p, c, now);
    if (t == NULL)
        return false;
    TAILQ_REMOVE(&h->queue, c, queued);
    h->in_flight++;
    p->stats.queued--;
    p->stats.in_flight++;
    TAILQ_INSERT_HEAD(&p->active, t, link);
    if (!transfer_begin(t, now) || curl_multi_add_handle(p->multi, t->easy) != CURLM_OK) {
        reply_fail(t, "NO_MEMORY", "not enough memory to send the request");
        flow_end(p, t);
    } else {
        p->next_check = fmin(p->next_check, transfer_due(t));
    }
    return true;
}

/* Starts queued calls, round robin over the hosts. False: out of memory. */
static bool start_calls(Pump *p)
{
    double now = loop_now_ms();
    size_t passed = 0; /* consecutive hosts with nothing to start */
    while (p->stats.queued > 0 && p->stats.in_flight < p->max_total && passed < p->host_count) {
        p->host_turn = (p->host_turn + 1) % p->host_count;
        NetHost *h = p->hosts[p->host_turn];
        if (TAILQ_EMPTY(&h->queue) || h->in_flight >= h->limit) {
            passed++;
        } else if (start_call(p, h, now)) {
            passed = 0;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- the loop ---- */

/* Ends the transfers that libcurl reports as done. */
static void take_ended(Pump *p)
{
    double now = loop_now_ms();
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(p->multi, &left)) != NULL;) {
        if (m->msg != CURLMSG_DONE)
            continue;
        char *private = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
        Transfer *t = (Transfer *)(void *)private;
        CURLcode code = m->data.result;
        curl_multi_remove_handle(p->multi, t->easy); /* frees m */
        bool redirected = transfer_end(t, code, now);
        if (redirected && curl_multi_add_handle(p->multi, t->easy) == CURLM_OK)
            continue;
        if (redirected)
            reply_fail(t, "NO_MEMORY", "not enough memory to follow a redirect");
        flow_end(p, t);
    }
}

static void expire(Transfer *t, double now)
{
    transfer_measure(t, now);
    if (t->reader.done)
        return;
    t->result.timeout = "idle";
    reply_fail(t, "TIMEOUT", "no data event within idle_timeout_ms (%lld)",
               (long long)t->call->limits.idle_timeout_ms);
}

/* Checks the time limits that libcurl does not have. A paused transfer is not idle. */
static void check_times(Pump *p)
{
    double now = loop_now_ms();
    if (now < p->next_check)
        return;
    p->next_check = INFINITY;
    for (Transfer *t = TAILQ_FIRST(&p->active), *next; t != NULL; t = next) {
        next = TAILQ_NEXT(t, link);
        double due = t->paused ? INFINITY : transfer_due(t);
        if (due > now) {
            p->next_check = fmin(p->next_check, due);
        } else {
            expire(t, now);
            flow_end(p, t);
        }
    }
}

static bool can_start(const Pump *p)
{
    if (p->no_memory || p->stats.queued == 0 || p->stats.in_flight >= p->max_total)
        return false;
    for (size_t i = 0; i < p->host_count; i++)
        if (!TAILQ_EMPTY(&p->hosts[i]->queue) && p->hosts[i]->in_flight < p->hosts[i]->limit)
            return true;
    return false;
}

void flow_schedule(Pump *p)
{
    double due = can_start(p) ? 0 : fmin(p->curl_due, p->next_check);
    loop_timer_set(p->timer, fmax(0, due - loop_now_ms()));
}

void flow_settle(Pump *p, CURLMcode code)
{
    p->no_memory = !start_calls(p) || code == CURLM_OUT_OF_MEMORY || p->no_memory;
    if (p->events.count > 0 || !TAILQ_EMPTY(&p->ended) || p->no_memory)
        loop_post(&p->port);
    flow_schedule(p);
}

static void serve_timer(Pump *p, CURLMcode *code)
{
    int running;
    if (loop_now_ms() < p->curl_due)
        return;
    p->curl_due = INFINITY;
    *code = curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_ended(p);
}

/* Sends requests before it reads replies. */
void flow_on_due(void *pump)
{
    Pump *p = pump;
    CURLMcode code = CURLM_OUT_OF_MEMORY;
    if (start_calls(p)) {
        code = CURLM_OK;
        serve_timer(p, &code);
    }
    check_times(p);
    flow_settle(p, code);
}

/* ---- what libcurl waits for ---- */

static void on_ready(void *pump, int fd, int events)
{
    Pump *p = pump;
    int running, bits = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
                        (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
    CURLMcode code = curl_multi_socket_action(p->multi, fd, bits, &running);
    take_ended(p);
    flow_settle(p, code);
}

static int events_of(int what)
{
    return (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0);
}

/* libcurl wants to watch a socket for other events. If a watch fails, the call times out. */
static int on_change(CURL *easy, curl_socket_t fd, int what, void *pump, void *known)
{
    Pump *p = pump;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        loop_end(known);
        curl_multi_assign(p->multi, fd, NULL);
    } else if (known != NULL) {
        loop_watch_for(known, events_of(what));
    } else {
        curl_multi_assign(p->multi, fd, loop_watch(fd, events_of(what), on_ready, p));
    }
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *pump)
{
    Pump *p = pump;
    (void)multi;
    p->curl_due = timeout_ms < 0 ? INFINITY : loop_now_ms() + (double)timeout_ms;
    flow_schedule(p);
    return 0;
}

bool flow_open(Pump *p)
{
    p->multi = curl_multi_init();
    if (p->multi == NULL)
        return false;
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, (long)p->max_total);
    curl_multi_setopt(p->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_change);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    return true;
}
