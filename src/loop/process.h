/*
 * process.h -- child processes on the event loop, with pipes to their standard streams.
 *
 *     process_write --> unwritten --> stdin  [child]  stdout, stderr --> read --> process_consume
 *
 * Nothing blocks: what the child does not read yet is kept, and of what it writes only so much is
 * read as fits into the buffers. Each child leads a session and a group of its own, without a
 * terminal. When it has ended, when it is dropped, and when this process ends in any way, SIGKILL
 * included, what is left of its group is killed (guard.c).
 *
 * libuv's own pipes were tried: they write without a shield against SIGPIPE, and give the child
 * sockets, which it cannot open again as /dev/stdin.
 */
#ifndef PONDER_LOOP_PROCESS_H
#define PONDER_LOOP_PROCESS_H

#include "loop/loop.h"

typedef struct Process Process;

typedef enum ProcessStream { PROCESS_STDOUT, PROCESS_STDERR } ProcessStream;

typedef struct ProcessOptions {
    char **arguments;    /* the program first, found by PATH in `environment`; ends in NULL */
    char **environment;  /* NAME=VALUE; ends in NULL */
    const char *cwd;     /* NULL: ours */
    size_t max_buffered; /* bytes of each stream that are read ahead */
} ProcessOptions;

/* Starts a child; NULL: errno says why. What is wrong with the program or the directory is told
 * here, not by an exit status. */
Process *process_start(const ProcessOptions *o);

/* Posted when output has come, input was written, or it has ended. */
const LoopPort *process_port(const Process *p);

/* What was read and not consumed; `ended` says that nothing more will come. */
const char *process_output(const Process *p, ProcessStream which, size_t *size, bool *ended);

/* Whether so much is kept that nothing more is read until some is consumed. */
bool process_is_full(const Process *p, ProcessStream which);
void process_consume(Process *p, ProcessStream which, size_t bytes);

/* Takes a copy. False: memory is short. What the child does not want any more (it has closed its
 * input or ended) is dropped: process_input_is_open says so. */
bool process_write(Process *p, const char *bytes, size_t n);
size_t process_unwritten(const Process *p);
bool process_input_is_open(const Process *p);

/* Ends the child's input after what is still to be written. */
void process_close_input(Process *p);

/* Whether the child has ended: its exit status and the signal that ended it, or 0. */
bool process_has_ended(const Process *p, int64_t *status, int *signal);

/* Sends a signal to the child and its group. */
void process_kill(Process *p, int signal);

/* Kills what still runs, and forgets it all. */
void process_drop(Process *p);

/* Whether this process started it: else nothing may be done with it. */
bool process_is_ours(const Process *p);

#endif
