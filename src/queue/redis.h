/*
 * redis.h -- a non-blocking connection to Redis.
 *
 *     redis_send --> out --> libcurl ~~~~ Redis ~~~~ libcurl --> hiredis' reader --> replies
 *                                                                    redis_first_reply, _drop_reply
 *
 * libcurl (CURLOPT_CONNECT_ONLY, without proxies) carries the bytes over TCP, a Unix socket or TLS,
 * on the event loop; hiredis formats commands and parses replies. Its own connections are not used,
 * since those of Debian 12 (0.14) do not support TLS. Commands may be sent before the connection is
 * open and pipelined; replies come in the order of commands.
 *
 * An error is final: open another connection. A connection begins with its LoopPort, which is
 * posted on replies, and when it opens or breaks.
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
    const char *url;         /* http://host:port or, with TLS, https://host:port */
    const char *socket_path; /* a Unix socket to use instead of host and port, or NULL */
    const char *ca_file;     /* trusted certificate authorities; NULL: the system's */
    int64_t connect_timeout_ms;
} RedisOptions;

typedef enum RedisState { REDIS_CONNECTING, REDIS_OPEN, REDIS_BROKEN } RedisState;

/* Begins to connect. NULL: see errno. */
Redis *redis_open(const Alloc *alloc, const RedisOptions *options);

/* Closes the connection; in a forked child only frees memory. */
void redis_close(Redis *r);

/* Also why it is broken: *code (CONNECT, TIMEOUT, TLS, CLOSED, PROTOCOL, MEMORY), or NULL, and
 * *text.
 */
RedisState redis_state(const Redis *r, const char **code, const char **text);

/* Queues a command. False: out of memory, or too much is unsent. A broken connection drops it. */
bool redis_send(Redis *r, int count, const char **words, const size_t *sizes);

/* Writes queued commands to the socket at once, as far as that accepts them. */
void redis_flush(Redis *r);

/* The oldest reply, or NULL. Reading pauses when too many are not dropped. */
const redisReply *redis_first_reply(const Redis *r);
void redis_drop_reply(Redis *r);

#endif
