/* system.c -- see system.h. */
#define _GNU_SOURCE /* close_range, renameat2 */
#include "loop/system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
#endif

int system_socket(int domain, int type, int protocol)
{
    int fd = socket(domain, type, protocol);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

bool system_close_from(int first, bool on_exec)
{
#if SYSTEM_IS_LINUX
    return close_range((unsigned)first, ~0U, on_exec ? CLOSE_RANGE_CLOEXEC : 0) == 0;
#else
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    for (int fd = first; (rlim_t)fd < limit.rlim_cur; fd++)
        on_exec ? fcntl(fd, F_SETFD, FD_CLOEXEC) : close(fd);
    return true;
#endif
}

void system_die_with_parent(void)
{
#if SYSTEM_IS_LINUX
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

int system_limit(int what, rlim_t soft, rlim_t hard)
{
    struct rlimit now;
    if (getrlimit((unsigned)what, &now) != 0)
        return errno;
    now.rlim_max = hard < now.rlim_max ? hard : now.rlim_max;
    now.rlim_cur = soft < now.rlim_cur ? soft : now.rlim_cur;
    now.rlim_cur = now.rlim_cur < now.rlim_max ? now.rlim_cur : now.rlim_max;
    return setrlimit((unsigned)what, &now) == 0 ? 0 : errno;
}

const char *system_program(void)
{
    static char path[PATH_MAX];
    size_t size = sizeof path;
    if (SYSTEM_IS_LINUX)
        return "/proc/self/exe";
    return uv_exepath(path, &size) == 0 ? path : "ponder";
}

bool system_real_path(int fd, const char *path, char real[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return realpath(SYSTEM_IS_LINUX ? link : path, real) != NULL;
}

bool system_is_made_up(int fd)
{
#if SYSTEM_IS_LINUX
    struct statfs system;
    return fstatfs(fd, &system) != 0 || system.f_type == PROC_SUPER_MAGIC;
#else
    return (void)fd, false;
#endif
}

/* Some file systems support only one of the two ways. */
int system_rename_new(const char *from, const char *to)
{
#if SYSTEM_IS_LINUX
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
        return -1;
#endif
    return link(from, to) == 0 ? unlink(from) : -1;
}

void system_trim(void)
{
#if SYSTEM_IS_LINUX
    malloc_trim(0);
#endif
}

int system_watch_child(pid_t pid)
{
#if SYSTEM_IS_LINUX
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    return (void)pid, -1;
#endif
}
