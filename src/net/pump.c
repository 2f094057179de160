/*
 * pump.c -- how calls move: from the queue to libcurl, and to the ended ones; see pump.h.
 *
 * libcurl's multi handle is on the event loop: libcurl names the sockets and the timeout it waits
 * for, and we report what is ready.
 */
#include "net/pump.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "net/parts.h"

enum {
    KEEP_DESCRIPTORS = 64, /* left for files, logs and child processes; at most half of all */
};

const CallLimits net_default_limits = {
    .timeout_ms = 600000,
    .connect_timeout_ms = 5000,
    .idle_timeout_ms = 60000,
    .max_body_bytes = 64 * 1024 * 1024,
    .max_line_bytes = 1024 * 1024,
    .max_event_bytes = 4 * 1024 * 1024,
    .max_header_bytes = 64 * 1024,
    .max_redirects = 5,
};

/* ---- transfers: active, ended ---- */

static void retire(Pump *p, Transfer *t)
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

static void end(Pump *p, Transfer *t)
{
    retire(p, t);
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
        end(p, t);
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
        end(p, t);
    }
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
            continue;
        }
        transfer_measure(t, now);
        if (!t->reader.done) {
            t->result.timeout = "idle";
            reply_fail(t, "TIMEOUT", "no data event within idle_timeout_ms (%lld)",
                       (long long)t->call->limits.idle_timeout_ms);
        }
        end(p, t);
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

static void schedule(Pump *p)
{
    double due = can_start(p) ? 0 : fmin(p->curl_due, p->next_check);
    loop_timer_set(p->timer, fmax(0, due - loop_now_ms()));
}

static void settle(Pump *p, CURLMcode code)
{
    p->no_memory = !start_calls(p) || code == CURLM_OUT_OF_MEMORY || p->no_memory;
    if (p->events.count > 0 || !TAILQ_EMPTY(&p->ended) || p->no_memory)
        loop_post(&p->port);
    schedule(p);
}

/* Sends requests before it reads replies. */
static void on_due(void *pump)
{
    Pump *p = pump;
    int running;
    CURLMcode code = start_calls(p) ? CURLM_OK : CURLM_OUT_OF_MEMORY;
    if (code == CURLM_OK && loop_now_ms() >= p->curl_due) {
        p->curl_due = INFINITY;
        code = curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        take_ended(p);
    }
    check_times(p);
    settle(p, code);
}

/* ---- what libcurl waits for ---- */

static void on_ready(void *pump, int fd, int events)
{
    Pump *p = pump;
    int running, bits = (events & LOOP_READ ? CURL_CSELECT_IN : 0) |
                        (events & LOOP_WRITE ? CURL_CSELECT_OUT : 0);
    CURLMcode code = curl_multi_socket_action(p->multi, fd, bits, &running);
    take_ended(p);
    settle(p, code);
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
    schedule(p);
    return 0;
}

static bool open_multi(Pump *p)
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

/* ---- opening and closing ---- */

PumpStatus pump_open(const Alloc *alloc, const PumpOptions *options, Pump **out)
{
    *out = NULL;
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK) /* may be called more than once */
        return PUMP_CURL;
    Pump *p = alloc_resize(alloc, NULL, 0, sizeof *p);
    if (p == NULL)
        return PUMP_NO_MEMORY;
    *p = (Pump){.alloc = *alloc, .options = *options, .next_check = INFINITY, .curl_due = INFINITY};
    TAILQ_INIT(&p->active);
    TAILQ_INIT(&p->ended);
    TAILQ_INIT(&p->taken);
    loop_port_open(&p->port);
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY}; /* where it may not ask */
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t kept = limit.rlim_cur / 2 < KEEP_DESCRIPTORS ? limit.rlim_cur / 2 : KEEP_DESCRIPTORS;
    /* Without any, one call still begins, to say that it fails. */
    rlim_t room = limit.rlim_cur > 0 ? limit.rlim_cur - kept : 1;
    p->max_total = (rlim_t)options->max_total < room ? options->max_total : (int64_t)room;
    if (!open_multi(p)) {
        pump_close(p);
        return PUMP_NO_MEMORY;
    }
    p->timer = loop_timer(on_due, p);
    if (p->timer == NULL) {
        PumpStatus status = errno == ENOMEM ? PUMP_NO_MEMORY : PUMP_NO_LOOP;
        pump_close(p);
        return status;
    }
    *out = p;
    return PUMP_OK;
}

static void free_transfers(Pump *p, TransferList *list)
{
    for (Transfer *t = TAILQ_FIRST(list), *next; t != NULL; t = next) {
        next = TAILQ_NEXT(t, link);
        curl_multi_remove_handle(p->multi, t->easy); /* an error if it is not in it */
        transfer_free(t);
    }
}

void pump_close(Pump *p)
{
    if (p == NULL)
        return;
    free_transfers(p, &p->active);
    free_transfers(p, &p->ended);
    free_transfers(p, &p->taken);
    curl_multi_cleanup(p->multi);
    loop_end(p->timer);
    loop_unpost(&p->port);
    hosts_free(p);
    event_list_free(&p->events, &p->alloc);
    event_list_free(&p->taken_events, &p->alloc);
    Alloc a = p->alloc;
    alloc_free(&a, p, sizeof *p);
}

/* ---- submitting ---- */

PumpStatus pump_submit(Pump *p, const Request *request, int64_t *id)
{
    if (p->stats.queued >= p->options.max_queued)
        return PUMP_QUEUE_FULL;
    char origin[ORIGIN_SIZE];
    if (!origin_of(request->url, origin))
        return PUMP_BAD_URL;
    Call *c = call_new(&p->alloc, request);
    NetHost *h = c != NULL ? host_get(p, origin) : NULL;
    if (h == NULL) {
        call_free(&p->alloc, c);
        return PUMP_NO_MEMORY;
    }
    c->id = ++p->last_id;
    c->submitted = loop_now_ms();
    c->host = h;
    TAILQ_INSERT_TAIL(&h->queue, c, queued);
    p->stats.queued++;
    p->stats.submitted++;
    schedule(p);
    *id = c->id;
    return PUMP_OK;
}

PumpStatus pump_limit(Pump *p, const char *url, int64_t max_in_flight)
{
    char origin[ORIGIN_SIZE];
    if (!origin_of(url, origin))
        return PUMP_BAD_URL;
    NetHost *h = host_get(p, origin);
    if (h == NULL)
        return PUMP_NO_MEMORY;
    h->limit = max_in_flight;
    h->pinned = true;
    schedule(p);
    return PUMP_OK;
}

/* ---- results, cancelling, numbers ---- */

/* The Lua code that reads what was taken may run the loop. What arrives then goes to other lists,
 * so that a call's events are read before its result. */
PumpStatus pump_take(Pump *p)
{
    EventList events = p->events;
    p->events = p->taken_events;
    event_list_reset(&p->events, &p->alloc);
    p->taken_events = events;
    TAILQ_CONCAT(&p->taken, &p->ended, link);
    loop_unpost(&p->port);
    bool no_memory = p->no_memory;
    p->no_memory = false; /* memory may be free again */
    schedule(p);
    return no_memory ? PUMP_NO_MEMORY : PUMP_OK;
}

const EventList *pump_events(const Pump *p)
{
    return &p->taken_events;
}

const Result *pump_first_result(const Pump *p)
{
    const Transfer *t = TAILQ_FIRST(&p->taken);
    return t != NULL ? &t->result : NULL;
}

void pump_drop_result(Pump *p)
{
    Transfer *t = TAILQ_FIRST(&p->taken);
    TAILQ_REMOVE(&p->taken, t, link);
    p->stats.completed++;
    transfer_free(t);
}

/* libcurl delivers what it has buffered at once, which may pause a transfer again. */
void pump_resume(Pump *p)
{
    if (!p->any_paused)
        return;
    p->any_paused = false;
    p->next_check = 0;
    for (Transfer *t = TAILQ_FIRST(&p->active), *next; t != NULL; t = next) {
        next = TAILQ_NEXT(t, link);
        if (!t->paused)
            continue;
        t->paused = false;
        t->beat = loop_now_ms();
        CURLcode code = curl_easy_pause(t->easy, CURLPAUSE_CONT);
        if (code != CURLE_OK) {
            transfer_end(t, code, loop_now_ms());
            end(p, t);
        }
    }
    settle(p, CURLM_OK);
}

static Call *find_call(const Pump *p, int64_t id)
{
    for (Transfer *t = TAILQ_FIRST(&p->active); t != NULL; t = TAILQ_NEXT(t, link))
        if (t->call->id == id)
            return t->call;
    for (size_t i = 0; i < p->host_count; i++)
        for (Call *c = TAILQ_FIRST(&p->hosts[i]->queue); c != NULL; c = TAILQ_NEXT(c, queued))
            if (c->id == id)
                return c;
    return NULL;
}

bool pump_cancel(Pump *p, int64_t id)
{
    Call *c = find_call(p, id);
    if (c == NULL)
        return false;
    p->stats.cancelled++;
    for (size_t i = 0; i < p->events.count; i++)
        if (p->events.list[i].source == id)
            p->events.list[i].source = 0; /* they are not delivered */
    if (c->transfer == NULL) {
        NetHost *h = c->host;
        TAILQ_REMOVE(&h->queue, c, queued);
        p->stats.queued--;
        host_drop_if_idle(p, h);
        call_free(&p->alloc, c);
    } else {
        Transfer *t = c->transfer;
        transfer_measure(t, loop_now_ms());
        retire(p, t);
        transfer_free(t);
        schedule(p);
    }
    return true;
}

int64_t pump_pending(const Pump *p)
{
    return p->stats.queued + p->stats.in_flight;
}

PumpStats pump_stats(const Pump *p)
{
    PumpStats stats = p->stats;
    stats.hosts = (int64_t)p->host_count;
    for (const Transfer *t = TAILQ_FIRST(&p->active); t != NULL; t = TAILQ_NEXT(t, link))
        stats.connections += t->result.new_connections + transfer_connections(t);
    return stats;
}

const char *net_curl_version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}
