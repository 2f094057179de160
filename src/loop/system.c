/* system.c -- see system.h. */
#define _GNU_SOURCE /* pipe2, close_range, renameat2 */
#include "loop/system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#if SYSTEM_IS_LINUX

#include <linux/close_range.h>
#include <linux/magic.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

int system_socket(int domain, int type, int protocol)
{
    return socket(domain, type | SOCK_CLOEXEC, protocol);
}

int system_pipe(int fds[2])
{
    return pipe2(fds, O_CLOEXEC);
}

bool system_close_from(int first, bool on_exec)
{
    return close_range((unsigned)first, ~0U, on_exec ? CLOSE_RANGE_CLOEXEC : 0) == 0;
}

void system_die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

const char *system_program(void)
{
    return "/proc/self/exe";
}

bool system_real_path(int fd, const char *path, char real[PATH_MAX])
{
    char link[64];
    (void)path;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, real, PATH_MAX);
    if (n < 0 || n == PATH_MAX)
        return false;
    real[n] = '\0';
    return true;
}

bool system_is_made_up(int fd)
{
    struct statfs system;
    return fstatfs(fd, &system) != 0 || system.f_type == PROC_SUPER_MAGIC;
}

/* Some file systems support only one of the two ways. */
int system_rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
        return -1;
    return link(from, to) == 0 ? unlink(from) : -1;
}

void system_trim(void)
{
    malloc_trim(0);
}

int system_watch_child(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

#else

int system_socket(int domain, int type, int protocol)
{
    int fd = socket(domain, type, protocol);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

int system_pipe(int fds[2])
{
    if (pipe(fds) != 0)
        return -1;
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    fcntl(fds[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

bool system_close_from(int first, bool on_exec)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    for (int fd = first; (rlim_t)fd < limit.rlim_cur; fd++)
        if (on_exec)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        else
            close(fd);
    return true;
}

void system_die_with_parent(void)
{
}

const char *system_program(void)
{
    static char path[PATH_MAX];
    size_t size = sizeof path;
    return uv_exepath(path, &size) == 0 ? path : "ponder";
}

bool system_real_path(int fd, const char *path, char real[PATH_MAX])
{
    (void)fd;
    return realpath(path, real) != NULL;
}

bool system_is_made_up(int fd)
{
    (void)fd;
    return false;
}

int system_rename_new(const char *from, const char *to)
{
    return link(from, to) == 0 ? unlink(from) : -1;
}

void system_trim(void)
{
}

int system_watch_child(pid_t pid)
{
    (void)pid;
    errno = ENOSYS;
    return -1;
}

#endif
