/* flow.c -- how calls move: from the queue to libcurl, and to the ended ones; see pump.h. */
#include <math.h>

#include "net/parts.h"

/* ---- transfers: spare, active, ended ---- */

static Transfer *take_spare(Pump *p)
{
    Transfer *t = TAILQ_FIRST(&p->spare);
    if (t == NULL)
        return transfer_new(p);
    TAILQ_REMOVE(&p->spare, t, link);
    p->spare_count--;
    return t;
}

void flow_spare(Pump *p, Transfer *t)
{
    t->call = NULL;
    if (p->spare_count >= (size_t)p->options.max_total) {
        transfer_free(t);
        return;
    }
    TAILQ_INSERT_HEAD(&p->spare, t, link);
    p->spare_count++;
}

/* Removes a transfer from the multi handle, the active ones and the host's count. */
static void leave(Pump *p, Transfer *t)
{
    multi_remove(t);
    TAILQ_REMOVE(&p->active, t, link);
    p->starved = false;
    p->stats.in_flight--;
    p->stats.connections += t->result.new_connections;
    t->call->host->in_flight--;
}

void flow_retire(Pump *p, Transfer *t)
{
    Call *c = t->call;
    leave(p, t);
    calls_remove(p, c->id);
    host_drop_if_idle(p, c->host);
    c->host = NULL;
}

/* Out of descriptors: puts the call back at the head of its queue and lowers the concurrency. */
static void requeue(Pump *p, Transfer *t)
{
    Call *c = t->call;
    leave(p, t);
    p->concurrency = p->stats.in_flight;
    c->transfer = NULL;
    TAILQ_INSERT_HEAD(&c->host->queue, c, queued);
    p->stats.queued++;
    flow_spare(p, t);
}

void flow_end(Pump *p, Transfer *t)
{
    flow_retire(p, t);
    TAILQ_INSERT_TAIL(&p->ended, t, link);
}

/* Starts the first call of a host's queue. False: out of memory for a transfer. */
static bool start_call(Pump *p, NetHost *h, double now)
{
    Transfer *t = take_spare(p);
    p->starved = t == NULL;
    if (p->starved)
        return false;
    Call *c = TAILQ_FIRST(&h->queue);
    TAILQ_REMOVE(&h->queue, c, queued);
    h->in_flight++;
    p->stats.queued--;
    p->stats.in_flight++;
    bool begun = transfer_begin(t, c, now);
    TAILQ_INSERT_HEAD(&p->active, t, link);
    if (!begun || !multi_add(p, t)) {
        transfer_fail(t, "NO_MEMORY", "not enough memory to send the request");
        flow_end(p, t);
    } else {
        p->next_check = fmin(p->next_check, transfer_due(t));
    }
    return true;
}

/* Starts queued calls, round robin over the hosts. False: out of memory, and nothing is in flight.
 */
static bool start_calls(Pump *p)
{
    double now = loop_now_ms();
    size_t passed = 0; /* consecutive hosts with nothing to start */
    while (p->stats.queued > 0 && p->stats.in_flight < p->concurrency && passed < p->host_count) {
        p->host_turn = (p->host_turn + 1) % p->host_count;
        NetHost *h = p->hosts[p->host_turn];
        if (TAILQ_EMPTY(&h->queue) || h->in_flight >= h->limit) {
            passed++;
        } else if (start_call(p, h, now)) {
            passed = 0;
        } else {
            return p->stats.in_flight > 0;
        }
    }
    return true;
}

/* ---- the loop ---- */

void flow_take_ended(Pump *p, CURLM *multi)
{
    double now = loop_now_ms();
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(multi, &left)) != NULL;) {
        if (m->msg != CURLMSG_DONE)
            continue;
        char *private = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
        Transfer *t = (Transfer *)(void *)private;
        CURLcode code = m->data.result;
        multi_remove(t); /* frees m */
        if (code != CURLE_OK && p->stats.in_flight > 1 && t->result.redirects == 0 &&
            transfer_lacks_descriptor(t)) {
            requeue(p, t);
            continue;
        }
        p->concurrency += code == CURLE_OK && p->concurrency < p->max_concurrency;
        bool redirected = transfer_end(t, code, now);
        if (redirected && multi_add(p, t))
            continue;
        if (redirected)
            transfer_fail(t, "NO_MEMORY", "not enough memory to follow a redirect");
        flow_end(p, t);
    }
}

static void expire(Transfer *t, double now)
{
    transfer_measure(t, now);
    if (t->reader.done)
        return;
    t->result.timeout = "idle";
    transfer_fail(t, "TIMEOUT", "no data event within idle_timeout_ms (%lld)",
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

/* Ends calls whose sockets the loop could not watch: they would wait forever. */
static void end_unwatched(Pump *p)
{
    if (!p->any_unwatched)
        return;
    p->any_unwatched = false;
    for (Transfer *t = TAILQ_FIRST(&p->active), *next; t != NULL; t = next) {
        next = TAILQ_NEXT(t, link);
        if (!t->unwatched)
            continue;
        transfer_measure(t, loop_now_ms());
        transfer_fail(t, "NO_MEMORY", "the system cannot watch more sockets");
        flow_end(p, t);
    }
}

static bool can_start(const Pump *p)
{
    if (p->stats.queued == 0 || p->starved || p->stats.in_flight >= p->concurrency)
        return false;
    for (size_t i = 0; i < p->host_count; i++)
        if (!TAILQ_EMPTY(&p->hosts[i]->queue) && p->hosts[i]->in_flight < p->hosts[i]->limit)
            return true;
    return false;
}

void flow_schedule(Pump *p)
{
    double due = can_start(p) ? 0 : fmin(multis_due(p), p->next_check);
    loop_timer_set(p->timer, fmax(0, due - loop_now_ms()));
}

void flow_settle(Pump *p, CURLMcode code)
{
    end_unwatched(p);
    p->no_memory = !start_calls(p) || code == CURLM_OUT_OF_MEMORY || p->no_memory;
    if (p->events.count > 0 || !TAILQ_EMPTY(&p->ended) || p->no_memory)
        loop_post(&p->port);
    flow_schedule(p);
}

/* Sends requests before it reads replies. */
void flow_on_due(void *pump)
{
    Pump *p = pump;
    CURLMcode code = start_calls(p) ? multis_serve_timers(p) : CURLM_OUT_OF_MEMORY;
    check_times(p);
    flow_settle(p, code);
}
