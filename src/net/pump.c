/* pump.c -- opens a pump; submits, takes and cancels calls; see pump.h. */
#include "net/pump.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "net/parts.h"

enum {
    KEEP_DESCRIPTORS = 24, /* left for files, logs and child processes */
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

/* ---- opening and closing ---- */

/* Once per process and never undone: all pumps share libcurl's global state. */
static bool start_libcurl(void)
{
    static bool started;
    if (!started)
        started = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    return started;
}

PumpStatus pump_open(const Alloc *alloc, const PumpOptions *options, Pump **out)
{
    *out = NULL;
    if (!start_libcurl())
        return PUMP_CURL;
    Pump *p = alloc_resize(alloc, NULL, 0, sizeof *p);
    if (p == NULL)
        return PUMP_NO_MEMORY;
    *p = (Pump){.alloc = *alloc, .options = *options, .next_check = INFINITY, .curl_due = INFINITY};
    TAILQ_INIT(&p->active);
    TAILQ_INIT(&p->ended);
    TAILQ_INIT(&p->taken);
    loop_port_open(&p->port);
    int64_t room = loop_free_descriptors() - KEEP_DESCRIPTORS;
    p->max_total = options->max_total < room ? options->max_total : room > 1 ? room : 1;
    if (!flow_open(p)) {
        pump_close(p);
        return PUMP_NO_MEMORY;
    }
    p->timer = loop_timer(flow_on_due, p);
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
    flow_schedule(p);
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
    flow_schedule(p);
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
    flow_schedule(p);
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
            flow_end(p, t);
        }
    }
    flow_settle(p, CURLM_OK);
}

/* Marks the events of a cancelled call that were not taken. */
static void forget_events(Pump *p, int64_t id)
{
    for (size_t i = 0; i < p->events.count; i++)
        if (p->events.list[i].source == id)
            p->events.list[i].source = 0;
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
    forget_events(p, id);
    if (c->transfer == NULL) {
        NetHost *h = c->host;
        TAILQ_REMOVE(&h->queue, c, queued);
        p->stats.queued--;
        host_drop_if_idle(p, h);
        call_free(&p->alloc, c);
    } else {
        Transfer *t = c->transfer;
        transfer_measure(t, loop_now_ms());
        flow_retire(p, t);
        transfer_free(t);
        flow_schedule(p);
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
