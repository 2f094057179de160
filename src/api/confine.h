/*
 * confine.h -- a process that may compute and talk over one socket, and nothing else.
 *
 * Landlock takes away the file system and TCP, seccomp all system calls but those of a computation
 * (no open, exec, socket, fork), rlimits bound its memory and processor time. What the kernel has
 * of these is known before.
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

/* Whether the kernel has these. */
bool confine_has_landlock(void);
bool confine_has_seccomp(void);

/* Confines this process, for good, by what the kernel has. Returns 0 or an errno value. */
int confine_enter(const ConfineLimits *limits);

/* The descriptor of the socket to its parent, in a child of confine_spawn. */
enum { CONFINE_FD = 3 };

/* The one argument of a child of confine_spawn. */
#define CONFINE_ARGUMENT "--confined"

/* Starts this program once more, with that argument, no environment, no open file but its end of a
 * socket. Returns 0 and where it is, or an errno value. */
int confine_spawn(pid_t *pid, int *fd);

/* Starts the first one now, which confine_spawn will give: it gets ready while this process does.
 * One that nobody asks for ends with this process. */
void confine_spawn_early(void);

/* Sends, or receives, so many bytes, as long as it takes; with `stops`, which a signal makes true,
 * until `deadline` (milliseconds of loop_now_ms; 0: none). Return 0; an errno value, EINTR where
 * `stops` says so, ETIMEDOUT; or EPIPE at the end. */
int confine_send(int fd, const void *bytes, size_t n, bool (*stops)(void));
int confine_receive(int fd, void *bytes, size_t n, bool (*stops)(void), double deadline);

#endif
