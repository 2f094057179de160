/* host.c -- the hosts of a pump: each has an origin, a limit, and a FIFO queue. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/vec.h"
#include "net/parts.h"

static bool read_origin(CURLU *u, const char *url, char out[ORIGIN_SIZE])
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    bool ok = curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0) &&
              curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK && *host != '\0' &&
              curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    if (ok) {
        int n = snprintf(out, ORIGIN_SIZE, "%s://%s:%s", scheme, host, port);
        ok = n > 0 && n < ORIGIN_SIZE;
    }
    for (char *c = out; ok && *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return ok;
}

bool origin_of(const char *url, char out[ORIGIN_SIZE])
{
    for (const char *c = url; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return false;
    CURLU *u = curl_url();
    bool ok = u != NULL && read_origin(u, url, out);
    curl_url_cleanup(u);
    return ok;
}

NetHost *host_get(Pump *p, const char *origin)
{
    for (size_t i = 0; i < p->host_count; i++)
        if (strcmp(p->hosts[i]->origin, origin) == 0)
            return p->hosts[i];
    if (!array_reserve(p->hosts, p->host_count, p->host_capacity, &p->alloc, 1))
        return NULL;
    NetHost *h = alloc_resize(&p->alloc, NULL, 0, sizeof *h);
    if (h == NULL)
        return NULL;
    *h = (NetHost){.limit = p->options.max_in_flight_per_host};
    strcpy(h->origin, origin); /* it has ORIGIN_SIZE bytes, too */
    TAILQ_INIT(&h->queue);
    return p->hosts[p->host_count++] = h;
}

void host_drop_if_idle(Pump *p, NetHost *h)
{
    if (h->pinned || h->in_flight > 0 || !TAILQ_EMPTY(&h->queue))
        return;
    for (size_t i = 0; i < p->host_count; i++) {
        if (p->hosts[i] == h) {
            p->hosts[i] = p->hosts[--p->host_count];
            alloc_free(&p->alloc, h, sizeof *h);
            return;
        }
    }
}

void hosts_free(Pump *p)
{
    for (size_t i = 0; i < p->host_count; i++) {
        NetHost *h = p->hosts[i];
        for (Call *c = TAILQ_FIRST(&h->queue), *next; c != NULL; c = next) {
            next = TAILQ_NEXT(c, queued);
            call_free(&p->alloc, c);
        }
        alloc_free(&p->alloc, h, sizeof *h);
    }
    alloc_free(&p->alloc, p->hosts, p->host_capacity * sizeof *p->hosts);
    p->hosts = NULL;
    p->host_count = p->host_capacity = 0;
}
