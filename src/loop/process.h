/*
 * process.h -- child processes on the event loop, with pipes to their standard streams.
 *
 *     process_write --> unwritten --> stdin  [child]  stdout, stderr --> read --> process_consume
 *
 * Nothing blocks: input that the child does not read yet is buffered, and its output is read only
 * as far as the buffers allow. Each child leads its own session and process group, without a
 * terminal. When it ends, is dropped, or this process exits, its group is killed; when this process
 * is killed, the kernel kills the child (PR_SET_PDEATHSIG), but not what it has started.
 *
 * A Process begins with its LoopPort, which is posted after output, after input was written, and
 * after the end.
 *
 * libuv's own pipes were tried: they do not protect against SIGPIPE, and give the child sockets,
 * which it cannot reopen as /dev/stdin.
 */
#ifndef PONDER_LOOP_PROCESS_H
#define PONDER_LOOP_PROCESS_H

#include "loop/loop.h"

typedef struct Process Process;

typedef enum ProcessStream { PROCESS_STDOUT, PROCESS_STDERR } ProcessStream;

typedef struct ProcessOptions {
    char **arguments;    /* argv; the program is looked up in the PATH of `environment` */
    char **environment;  /* NAME=VALUE; ends in NULL */
    const char *cwd;     /* NULL: ours */
    size_t max_buffered; /* bytes to read ahead from each stream */
} ProcessOptions;

/* Starts a child; NULL: see errno, also if the program or the directory cannot be used. */
Process *process_start(const ProcessOptions *o);

/* Output that was read and not consumed; `ended`: there will be no more. */
const char *process_output(const Process *p, ProcessStream which, size_t *size, bool *ended);

/* Whether max_buffered bytes wait to be consumed, so that reading pauses. */
bool process_is_full(const Process *p, ProcessStream which);
void process_consume(Process *p, ProcessStream which, size_t bytes);

/* Copies the bytes. False: out of memory. Drops them if the child has ended or closed its input:
 * see process_input_is_open. */
bool process_write(Process *p, const char *bytes, size_t n);
size_t process_unwritten(const Process *p);
bool process_input_is_open(const Process *p);

/* Closes the child's input once all is written. */
void process_close_input(Process *p);

/* Whether the child has ended, with its exit status and the signal that killed it, or 0. */
bool process_has_ended(const Process *p, int64_t *status, int *signal);

/* Sends a signal to the child and its group. */
void process_kill(Process *p, int signal);

/* Kills every child and its group, in a signal handler too. It is an atexit handler: for _exit. */
void process_kill_all(void);

/* Kills the child if it still runs, and frees `p`. A forked child must not use it. */
void process_drop(Process *p);

#endif
