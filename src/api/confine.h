/*
 * confine.h -- a process that may only compute and talk over one socket, which two use:
 *
 *   ponder.serve.untrusted   executes this program, which enters the confinement by itself
 *   ponder.sandbox     a fork that runs one program in a Lua state of its own, and replies
 *
 * Landlock removes the file system and TCP, seccomp all system calls but those of a computation (no
 * open, exec, socket, fork), rlimits bound memory and CPU time.
 */
#ifndef PONDER_API_CONFINE_H
#define PONDER_API_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the kernel has them. */
bool confine_has_landlock(void);
bool confine_has_seccomp(void);

/* Confines this process for good, by what the kernel has: `memory` bytes of address space and so
 * many seconds of CPU time (0: without limit). Returns 0 or an errno value. */
int confine_enter(size_t memory, long cpu_seconds);

/* The descriptor of the socket to its parent, in a child of confine_fork. */
enum { CONFINE_FD = 3 };

/* The one argument of a process of this program that confine_execute starts. */
#define CONFINE_ARGUMENT "--confined"

/* Starts a process that calls `run(arg)`, with no open file but its end of a socket, and without
 * the signal handlers of this one. Returns 0 and our end, or an errno value. */
int confine_fork(void (*run)(void *arg), void *arg, pid_t *pid, int *fd);

/* A function for confine_fork: executes this program, without an environment. */
void confine_execute(void *unused);

/* Sends (`out`) or receives exactly `n` bytes, until the run is asked to stop (task_stop.h) or
 * `deadline` (of loop_now; 0: none). Returns 0; EINTR: stopped; ETIMEDOUT; EPIPE: end of file; or
 * another errno value. */
int confine_transfer(int fd, void *bytes, size_t n, bool out, double deadline);

/* Waits until the process, which is a child of this one, has ended, for `seconds` at most (always
 * so long where it cannot be watched). */
void confine_await(pid_t pid, double seconds);

#endif
