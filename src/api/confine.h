/*
 * confine.h -- a process that may only compute and talk over one socket.
 *
 * Landlock removes the file system and TCP, seccomp all system calls but those of a computation (no
 * open, exec, socket, fork), rlimits bound memory and CPU time.
 */
#ifndef PONDER_API_CONFINE_H
#define PONDER_API_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct ConfineLimits {
    size_t memory;    /* bytes of address space; 0: without limit */
    long cpu_seconds; /* 0: without limit */
} ConfineLimits;

/* Whether the kernel has them. */
bool confine_has_landlock(void);
bool confine_has_seccomp(void);

/* Confines this process for good, by what the kernel has. Returns 0 or an errno value. */
int confine_enter(const ConfineLimits *limits);

/* The descriptor of the socket to its parent, in a child of confine_spawn. */
enum { CONFINE_FD = 3 };

/* The one argument of a child of confine_spawn. */
#define CONFINE_ARGUMENT "--confined"

/* Starts another process of this program with that argument, no environment, and no open file but
 * its end of a socket. Returns 0 and our end, or an errno value. */
int confine_spawn(pid_t *pid, int *fd);

/* Starts the process that the first confine_spawn returns, so that both start up in parallel. If it
 * is not used it ends with this process. */
void confine_spawn_early(void);

/* Send or receive exactly `n` bytes, until the run is asked to stop (task_stop.h) or `deadline` (of
 * loop_now_ms; 0: none). Return 0; EINTR: stopped; ETIMEDOUT; EPIPE: end of file; or another errno
 * value. */
int confine_send(int fd, const void *bytes, size_t n, double deadline);
int confine_receive(int fd, void *bytes, size_t n, double deadline);

#endif
