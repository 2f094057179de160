/*
 * pump.c -- queues, the multi handle, and the loop that moves calls along. See pump.h.
 */
#include "net/pump.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "net/parts.h"

enum {
    FIRST_BUCKETS = 64,
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

static void on_due(void *pump);

/* --- opening and closing ------------------------------------------------------------------ */

/* Once a process and never undone: libcurl's own state is shared by all pumps. */
static bool start_libcurl(void)
{
    static bool started;
    if (!started)
        started = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    return started;
}

static bool copy_string(Pump *p, const char *s, char **out)
{
    size_t size = s != NULL ? strlen(s) + 1 : 0;
    if (size > 0)
        *out = alloc_resize(&p->alloc, NULL, 0, size);
    if (*out != NULL)
        memcpy(*out, s, size);
    return size == 0 || *out != NULL;
}

static void free_string(Pump *p, char *s)
{
    if (s != NULL)
        alloc_free(&p->alloc, s, strlen(s) + 1);
}

static bool copy_options(Pump *p, const PumpOptions *o)
{
    p->options = *o;
    p->options.user_agent = p->options.ca_file = p->options.proxy = NULL; /* only the copies stay */
    return copy_string(p, o->user_agent, &p->user_agent) &&
           copy_string(p, o->ca_file, &p->ca_file) && copy_string(p, o->proxy, &p->proxy);
}

static bool make_buckets(Pump *p)
{
    size_t bytes = FIRST_BUCKETS * sizeof *p->buckets;
    p->buckets = alloc_resize(&p->alloc, NULL, 0, bytes);
    if (p->buckets == NULL)
        return false;
    memset(p->buckets, 0, bytes);
    p->bucket_count = FIRST_BUCKETS;
    return true;
}

PumpStatus pump_open(const Alloc *alloc, const PumpOptions *options, Pump **out)
{
    *out = NULL;
    if (!start_libcurl())
        return PUMP_CURL;
    Pump *p = alloc_resize(alloc, NULL, 0, sizeof *p);
    if (p == NULL)
        return PUMP_NO_MEMORY;
    *p = (Pump){.alloc = *alloc,
                .owner = getpid(),
                .multi = curl_multi_init(),
                .next_check = INFINITY,
                .curl_due = INFINITY};
    loop_port_open(&p->port);
    if (p->multi == NULL || !copy_options(p, options) || !make_buckets(p)) {
        pump_close(p);
        return PUMP_NO_MEMORY;
    }
    p->timer = loop_timer(on_due, p);
    if (p->timer == NULL) {
        PumpStatus status = errno == ENOMEM ? PUMP_NO_MEMORY : PUMP_NO_LOOP;
        pump_close(p);
        return status;
    }
    sockets_open(p);
    long total = (long)options->max_total;
    curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, total);
    curl_multi_setopt(p->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    *out = p;
    return PUMP_OK;
}

static void free_transfers(Pump *p, Transfer *t)
{
    for (Transfer *next; t != NULL; t = next) {
        next = t->next;
        if (t->in_multi)
            curl_multi_remove_handle(p->multi, t->easy);
        call_free(&p->alloc, t->call);
        transfer_free(t);
    }
}

bool pump_is_ours(const Pump *p)
{
    return p->owner == getpid();
}

void pump_close(Pump *p)
{
    if (p == NULL)
        return;
    if (pump_is_ours(p)) { /* a child must not say goodbye on its parent's connections */
        free_transfers(p, p->active);
        free_transfers(p, p->ended.first);
        free_transfers(p, p->taken.first);
        free_transfers(p, p->spare);
        curl_multi_cleanup(p->multi);
        loop_timer_end(p->timer);
        loop_port_close(&p->port);
    }
    hosts_free(p);
    event_list_free(&p->events, &p->alloc);
    event_list_free(&p->taken_events, &p->alloc);
    alloc_free(&p->alloc, p->buckets, p->bucket_count * sizeof *p->buckets);
    free_string(p, p->user_agent);
    free_string(p, p->ca_file);
    free_string(p, p->proxy);
    Alloc a = p->alloc;
    alloc_free(&a, p, sizeof *p);
}

/* --- submitting --------------------------------------------------------------------------- */

PumpStatus pump_submit(Pump *p, const Request *request, int64_t *id)
{
    if (p->stats.queued >= p->options.max_queued)
        return PUMP_QUEUE_FULL;
    const char *origin = host_origin(p, request->url);
    if (origin == NULL)
        return PUMP_BAD_URL;
    Request r = *request;
    r.ca_file = r.ca_file != NULL ? r.ca_file : p->ca_file;
    r.proxy = r.proxy != NULL ? r.proxy : p->proxy;
    Call *c = call_new(&p->alloc, &r);
    Host *h = c != NULL ? host_get(p, origin) : NULL;
    if (h == NULL) {
        call_free(&p->alloc, c);
        return PUMP_NO_MEMORY;
    }
    c->id = ++p->last_id;
    c->submitted = loop_now_ms();
    host_push(h, c);
    p->stats.queued++;
    p->stats.submitted++;
    calls_add(p, c);
    pump_schedule(p);
    *id = c->id;
    return PUMP_OK;
}

PumpStatus pump_limit(Pump *p, const char *url, int64_t max_in_flight)
{
    const char *origin = host_origin(p, url);
    if (origin == NULL)
        return PUMP_BAD_URL;
    Host *h = host_get(p, origin);
    if (h == NULL)
        return PUMP_NO_MEMORY;
    h->limit = max_in_flight;
    h->pinned = true;
    pump_schedule(p);
    return PUMP_OK;
}

/* --- transfers: spare, active, ended ------------------------------------------------------ */

static Transfer *take_spare(Pump *p)
{
    Transfer *t = p->spare;
    if (t == NULL)
        return transfer_new(p);
    p->spare = t->next;
    p->spare_count--;
    return t;
}

static void give_spare(Pump *p, Transfer *t)
{
    t->call = NULL;
    if (p->spare_count >= (size_t)p->options.max_total) {
        transfer_free(t);
        return;
    }
    t->next = p->spare;
    p->spare = t;
    p->spare_count++;
}

static void link_active(Pump *p, Transfer *t)
{
    t->prev = NULL;
    t->next = p->active;
    if (p->active != NULL)
        p->active->prev = t;
    p->active = t;
}

/* Takes a transfer out of the multi handle and gives its place at the host to the next call. */
static void retire(Pump *p, Transfer *t)
{
    Call *c = t->call;
    if (t->in_multi)
        curl_multi_remove_handle(p->multi, t->easy);
    t->in_multi = false;
    *(t->prev != NULL ? &t->prev->next : &p->active) = t->next;
    if (t->next != NULL)
        t->next->prev = t->prev;
    t->next = t->prev = NULL;
    calls_remove(p, c->id);
    p->starved = false;
    p->stats.in_flight--;
    p->stats.connections += t->result.new_connections;
    c->host->in_flight--;
    host_drop_if_idle(p, c->host);
    c->host = NULL;
}

static void move_to_ended(Pump *p, Transfer *t)
{
    TransferList *l = &p->ended;
    retire(p, t);
    *(l->first != NULL ? &l->last->next : &l->first) = t;
    l->last = t;
}

static bool add_to_multi(Pump *p, Transfer *t)
{
    t->in_multi = curl_multi_add_handle(p->multi, t->easy) == CURLM_OK;
    return t->in_multi;
}

/* The first call of a host's queue goes out. False when there is no memory for a transfer. */
static bool start_call(Pump *p, Host *h, double now)
{
    Transfer *t = take_spare(p);
    p->starved = t == NULL;
    if (p->starved)
        return false;
    Call *c = h->first;
    host_unlink(h, c);
    h->in_flight++;
    p->stats.queued--;
    p->stats.in_flight++;
    bool begun = transfer_begin(t, c, now);
    link_active(p, t);
    if (!begun || !add_to_multi(p, t)) {
        transfer_fail(t, "NO_MEMORY", "not enough memory to send the request");
        move_to_ended(p, t);
    } else {
        p->next_check = fmin(p->next_check, transfer_due(t));
    }
    return true;
}

/* Fills free places, one call a host in turn. False when memory is short and nothing flies. */
static bool start_calls(Pump *p)
{
    double now = loop_now_ms();
    size_t passed = 0; /* hosts in a row that had nothing to start */
    while (p->stats.queued > 0 && p->stats.in_flight < p->options.max_total &&
           passed < p->host_count) {
        p->host_turn = (p->host_turn + 1) % p->host_count;
        Host *h = p->hosts[p->host_turn];
        if (h->first == NULL || h->in_flight >= h->limit) {
            passed++;
        } else if (start_call(p, h, now)) {
            passed = 0;
        } else {
            return p->stats.in_flight > 0;
        }
    }
    return true;
}

/* --- the loop ----------------------------------------------------------------------------- */

static void take_ended(Pump *p)
{
    double now = loop_now_ms();
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(p->multi, &left)) != NULL;) {
        if (m->msg != CURLMSG_DONE)
            continue;
        char *mine = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &mine);
        Transfer *t = (Transfer *)(void *)mine;
        CURLcode code = m->data.result;
        curl_multi_remove_handle(p->multi, t->easy); /* m is gone from here on */
        t->in_multi = false;
        bool going_on = transfer_end(t, code, now);
        if (going_on && add_to_multi(p, t))
            continue;
        if (going_on)
            transfer_fail(t, "NO_MEMORY", "not enough memory to follow a redirect");
        move_to_ended(p, t);
    }
}

static void expire(Transfer *t, double now)
{
    transfer_measure(t, now);
    t->result.streamed = t->mode == BODY_STREAM;
    t->result.done = t->reader.done;
    if (t->reader.done)
        return;
    t->result.timeout = "idle";
    transfer_fail(t, "TIMEOUT", "no data event within idle_timeout_ms (%lld)",
                  (long long)t->call->limits.idle_timeout_ms);
}

/* Time limits that libcurl does not know. A paused transfer has data that waits for us. */
static void check_times(Pump *p)
{
    double now = loop_now_ms();
    if (now < p->next_check)
        return;
    p->next_check = INFINITY;
    for (Transfer *t = p->active, *next; t != NULL; t = next) {
        next = t->next;
        double due = t->paused ? INFINITY : transfer_due(t);
        if (due > now) {
            p->next_check = fmin(p->next_check, due);
        } else {
            expire(t, now);
            move_to_ended(p, t);
        }
    }
}

/* Sockets that the loop would not watch: their calls would wait for nothing. */
static void end_unwatched(Pump *p)
{
    if (!p->any_unwatched)
        return;
    p->any_unwatched = false;
    for (Transfer *t = p->active, *next; t != NULL; t = next) {
        next = t->next;
        if (!t->unwatched)
            continue;
        transfer_measure(t, loop_now_ms());
        transfer_fail(t, "NO_MEMORY", "the system watches no more sockets");
        move_to_ended(p, t);
    }
}

static bool can_start(const Pump *p)
{
    if (p->stats.queued == 0 || p->starved || p->stats.in_flight >= p->options.max_total)
        return false;
    for (size_t i = 0; i < p->host_count; i++)
        if (p->hosts[i]->first != NULL && p->hosts[i]->in_flight < p->hosts[i]->limit)
            return true;
    return false;
}

void pump_schedule(Pump *p)
{
    double due = can_start(p) ? 0 : fmin(p->curl_due, p->next_check);
    loop_timer_set(p->timer, fmax(0, due - loop_now_ms()));
}

void pump_settle(Pump *p, CURLMcode code)
{
    take_ended(p);
    end_unwatched(p);
    p->no_memory = !start_calls(p) || code == CURLM_OUT_OF_MEMORY || p->no_memory;
    if (p->events.count > 0 || p->ended.first != NULL || p->no_memory)
        loop_post(&p->port);
    pump_schedule(p);
}

/* Requests go out before replies are read. */
static void on_due(void *pump)
{
    Pump *p = pump;
    CURLMcode code = start_calls(p) ? sockets_serve_timer(p) : CURLM_OUT_OF_MEMORY;
    check_times(p);
    pump_settle(p, code);
}

/* --- waiting, results, cancelling, numbers -------------------------------------------------- */

const LoopPort *pump_port(const Pump *p)
{
    return &p->port;
}

PumpStatus pump_wait(Pump *p, double timeout_ms)
{
    bool idle = timeout_ms < 0 && pump_pending(p) == 0;
    return loop_wait_for(&p->port, idle ? 0 : timeout_ms) == 0 ? PUMP_OK : PUMP_NO_LOOP;
}

/* Handing over what was taken may run Lua code that runs the loop: what comes then is kept apart,
 * so that a call's events come before its result. */
PumpStatus pump_take(Pump *p)
{
    EventList events = p->events;
    p->events = p->taken_events;
    event_list_reset(&p->events, &p->alloc);
    p->taken_events = events;
    if (p->ended.first != NULL) {
        *(p->taken.first != NULL ? &p->taken.last->next : &p->taken.first) = p->ended.first;
        p->taken.last = p->ended.last;
        p->ended.first = NULL;
    }
    loop_unpost(&p->port);
    bool no_memory = p->no_memory;
    p->no_memory = p->starved = false; /* memory may have become free */
    pump_schedule(p);
    return no_memory ? PUMP_NO_MEMORY : PUMP_OK;
}

const EventList *pump_events(const Pump *p)
{
    return &p->taken_events;
}

const Result *pump_first_result(const Pump *p)
{
    return p->taken.first != NULL ? &p->taken.first->result : NULL;
}

void pump_drop_result(Pump *p)
{
    Transfer *t = p->taken.first;
    p->taken.first = t->next;
    p->stats.completed++;
    call_free(&p->alloc, t->call);
    give_spare(p, t);
}

/* What libcurl kept for a transfer comes at once, and may pause it again. */
void pump_resume(Pump *p)
{
    if (!p->any_paused)
        return;
    p->any_paused = false;
    p->next_check = 0;
    for (Transfer *t = p->active, *next; t != NULL; t = next) {
        next = t->next;
        if (!t->paused)
            continue;
        t->paused = false;
        t->beat = loop_now_ms();
        CURLcode code = curl_easy_pause(t->easy, CURLPAUSE_CONT);
        if (code != CURLE_OK) {
            transfer_end(t, code, loop_now_ms());
            move_to_ended(p, t);
        }
    }
    pump_settle(p, CURLM_OK);
}

/* What has come of a cancelled call and was not taken is nobody's. */
static void forget_events(Pump *p, int64_t id)
{
    for (size_t i = 0; i < p->events.count; i++)
        if (p->events.list[i].source == id)
            p->events.list[i].source = 0;
}

bool pump_cancel(Pump *p, int64_t id)
{
    Call *c = calls_remove(p, id);
    if (c == NULL)
        return false;
    p->stats.cancelled++;
    forget_events(p, id);
    if (c->transfer == NULL) {
        Host *h = c->host;
        host_unlink(h, c);
        p->stats.queued--;
        host_drop_if_idle(p, h);
    } else {
        Transfer *t = c->transfer;
        transfer_measure(t, loop_now_ms());
        retire(p, t);
        give_spare(p, t);
        pump_schedule(p);
    }
    call_free(&p->alloc, c);
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
    for (const Transfer *t = p->active; t != NULL; t = t->next)
        stats.connections += t->result.new_connections + transfer_connections(t);
    return stats;
}

const char *net_curl_version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}
