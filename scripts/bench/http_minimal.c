/*
 * http_minimal.c -- the baseline for scripts/bench/serve.lua: a minimal server on libmicrohttpd
 * that reads each request and answers with a fixed text.
 *
 *      http_minimal      prints its port; ends when it is killed
 */
#include <microhttpd.h>
#include <stdio.h>
#include <unistd.h>

static const char TEXT[] =
    "{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"choices\":[{"
    "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hello\"}}]}";

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **seen)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data;
    if (*seen == NULL) {
        *seen = connection;
        return MHD_YES;
    }
    if (*size > 0) {
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof TEXT - 1, (void *)(size_t)TEXT, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

int main(void)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL,
                                                 answer, NULL, MHD_OPTION_END);
    if (daemon == NULL)
        return 1;
    printf("%d\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    for (;;)
        pause();
}
