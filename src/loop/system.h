/*
 * system.h -- what not every Unix has, each behind one function with a plain fallback.
 *
 * On Linux it is what Linux has. Elsewhere, and with -DPONDER_PLAIN (`make plain` stands for such a
 * system), it is POSIX.1-2008 and libuv; what is lost then stands beside each function. Confinement
 * (api/confine.h), isolation (isolate.h) and the HTTP server, which polls (http/server.c), have
 * fallbacks of their own.
 */
#ifndef PONDER_LOOP_SYSTEM_H
#define PONDER_LOOP_SYSTEM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#if defined(__linux__) && !defined(PONDER_PLAIN)
#define SYSTEM_IS_LINUX 1
#else
#define SYSTEM_IS_LINUX 0
#endif

/* A socket that is closed on exec; -1: errno. */
int system_socket(int domain, int type, int protocol);

/* In a child: closes the descriptors from `first` on, at once or on exec. */
bool system_close_from(int first, bool on_exec);

/* In a child: SIGKILL when the parent ends. Plain: it may outlive a parent that is killed. */
void system_die_with_parent(void);

/* Lowers a resource limit (RLIMIT_CPU), and never raises one. Returns 0 or an errno value. */
int system_limit(int what, rlim_t soft, rlim_t hard);

/* The path of this program. Plain: a program that is replaced while it runs starts the new one. */
const char *system_program(void);

/* The real path of an open file that was opened as `path`; false: errno. Plain: another file's, if
 * it was renamed in between. */
bool system_real_path(int fd, const char *path, char real[PATH_MAX]);

/* Whether an open file is of /proc, which describes this and other processes. Plain: no. */
bool system_is_made_up(int fd);

/* Like rename, but EEXIST if there is such a file. Plain: needs a file system with links. */
int system_rename_new(const char *from, const char *to);

/* Gives free memory back to the system. Plain: nothing. */
void system_trim(void);

/* Opens what poll finds readable when a child of this process has ended; -1: cannot. Plain: -1. */
int system_watch_child(pid_t pid);

#endif
