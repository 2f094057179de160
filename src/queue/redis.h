/*
 * redis.h -- a connection to Redis: commands out, replies in, nothing waits.
 *
 *     redis_send --> out --> libcurl ~~~~ Redis ~~~~ libcurl --> hiredis' reader --> replies
 *                                                                    redis_first_reply, _drop_reply
 *
 * libcurl (CURLOPT_CONNECT_ONLY, without proxies) carries the bytes over TCP, a Unix socket or TLS,
 * on the event loop; hiredis formats commands and parses replies. Its own connections are not used:
 * those of Debian 12 (0.14) know no TLS. Commands may be sent before the connection is open, and
 * many before the first is answered; replies come in the order of commands.
 *
 * What has gone wrong ends the connection for good: open another one.
 */
#ifndef PONDER_QUEUE_REDIS_H
#define PONDER_QUEUE_REDIS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/alloc.h"
#include "loop/loop.h"

typedef struct Redis Redis;

/* Strings are copied. */
typedef struct RedisOptions {
    const char *url;         /* http://host:port or, with TLS, https://host:port: nothing else */
    const char *socket_path; /* of a Unix socket, which takes the place of host and port; or NULL */
    const char *ca_file;     /* of authorities to trust; NULL: the system's */
    int64_t connect_timeout_ms;
} RedisOptions;

typedef enum RedisState { REDIS_CONNECTING, REDIS_OPEN, REDIS_BROKEN } RedisState;

/* Begins to connect. NULL: errno says why. */
Redis *redis_open(const Alloc *alloc, const RedisOptions *options);

/* Closes the connection. In a forked child it only gives memory back. */
void redis_close(Redis *r);

/* Whether this process opened it: else only redis_close may be called. */
bool redis_is_ours(const Redis *r);

RedisState redis_state(const Redis *r);

/* Why it is broken: a code (CONNECT, TIMEOUT, TLS, CLOSED, PROTOCOL, MEMORY) and a text; NULL: it
 * is not. */
const char *redis_problem(const Redis *r, const char **text);

/* Appends a command to what goes out; false when memory is short, or nothing is read at the other
 * end and too much has gathered. A broken connection drops it. */
bool redis_send(Redis *r, int count, const char **words, const size_t *sizes);

/* The oldest reply that has come, or NULL. What is not dropped holds up what comes behind. */
const redisReply *redis_first_reply(const Redis *r);
void redis_drop_reply(Redis *r);

/* Posted when replies have come, or the connection has opened or broken. */
const LoopPort *redis_port(const Redis *r);

#endif
