/*
 * curl_multi.c -- the baseline for scripts/bench/net.lua: a minimal C program that sends `calls`
 * POSTs over libcurl's multi interface, `in_flight` at a time, and keeps the replies in memory.
 *
 *      curl_multi URL CALLS IN_FLIGHT      prints "WALL_MS CPU_MS CONNECTIONS ANSWERED"
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct Reply {
    char *data;
    size_t size, capacity;
} Reply;

static const char BODY[] = "{\"messages\":[{\"content\":\"hello\",\"role\":\"user\"}],"
                           "\"model\":\"test-model\"}";

static size_t keep(char *bytes, size_t unit, size_t count, void *arg)
{
    Reply *r = arg;
    size_t n = unit * count;
    if (r->size + n > r->capacity) {
        r->capacity = (r->size + n) * 2;
        r->data = realloc(r->data, r->capacity);
        if (r->data == NULL)
            abort();
    }
    memcpy(r->data + r->size, bytes, n);
    r->size += n;
    return n;
}

static double wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void start(CURLM *multi, CURL *easy, const char *url, struct curl_slist *headers, Reply *r)
{
    r->size = 0;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, BODY);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
    curl_multi_add_handle(multi, easy);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    long calls = strtol(argv[2], NULL, 10), in_flight = strtol(argv[3], NULL, 10);
    long started = 0, ended = 0, connections = 0, answered = 0;
    int running, left;
    double wall = wall_ms(), cpu = cpu_ms();
    curl_global_init(CURL_GLOBAL_ALL);
    CURLM *multi = curl_multi_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    Reply *replies = calloc((size_t)in_flight, sizeof *replies);
    for (; started < in_flight && started < calls; started++)
        start(multi, curl_easy_init(), argv[1], headers, &replies[started]);
    while (ended < calls) {
        curl_multi_perform(multi, &running);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left)) != NULL;) {
            CURL *easy = m->easy_handle;
            long status = 0, opened = 0;
            Reply *r = NULL;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &opened);
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&r);
            answered += status == 200 && r->size > 0;
            connections += opened;
            ended++;
            curl_multi_remove_handle(multi, easy);
            if (started < calls) {
                started++;
                start(multi, easy, argv[1], headers, r);
            } else {
                curl_easy_cleanup(easy);
            }
        }
        if (ended < calls)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    printf("%.3f %.3f %ld %ld\n", wall_ms() - wall, cpu_ms() - cpu, connections, answered);
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    return 0;
}
