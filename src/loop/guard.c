/*
 * guard.c -- see guard.h.
 *
 * PR_SET_PDEATHSIG reaches a child, but not what a shell has started in turn; atexit reaches
 * neither when this process gets SIGKILL. So there is a process that only waits for our end: it
 * knows the groups of our children, and kills them once its pipe says that we are gone.
 *
 *     we ----- pipe: +group, -group ----> guard          pipe closes: kill(-group, SIGKILL)
 */
#define _GNU_SOURCE /* close_range */
#include "loop/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_GROUPS = 4096 };

static int guard_fd = -1;  /* our end */
static int group_count;    /* that the guard knows */
static pid_t forking_from; /* not 0: what forks now is a child that dies with us */

/* --- the guard's side: only calls that are safe after a fork ---------------------------------- */

static void note(pid_t *groups, int *count, pid_t message)
{
    if (message > 0) {
        if (*count < MAX_GROUPS)
            groups[(*count)++] = message;
        return;
    }
    for (int i = 0; i < *count; i++) {
        if (groups[i] == -message) {
            groups[i] = groups[--*count];
            return;
        }
    }
}

static void leave_everything_else(int fd)
{
    int null = open("/dev/null", O_RDWR);
    setsid();
    prctl(PR_SET_NAME, "ponder-guard");
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    dup2(fd, 3);
    close_range(4, ~0U, 0);
}

static _Noreturn void stand_guard(int fd)
{
    static pid_t groups[MAX_GROUPS];
    int count = 0;
    pid_t message;
    ssize_t n;
    leave_everything_else(fd);
    while ((n = recv(3, &message, sizeof message, 0)) != 0) {
        if (n == (ssize_t)sizeof message)
            note(groups, &count, message);
        else if (errno != EINTR)
            break;
    }
    for (int i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

/* --- our side ----------------------------------------------------------------------------------
 */

/* In every child that the C library forks: it has no guard yet. One of process.c dies with us. */
static void after_fork(void)
{
    guard_fd = -1;
    group_count = 0;
    if (forking_from == 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != forking_from)
        _exit(127);
}

void guard_begin_fork(void)
{
    forking_from = getpid();
}

void guard_end_fork(void)
{
    forking_from = 0;
}

/* Nobody's signals reach it before it stands: it would handle them as we do. */
static bool fork_guard(const int fds[2])
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        stand_guard(fds[1]);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid > 0;
}

bool guard_open(void)
{
    static bool watched;
    int fds[2];
    if (guard_fd >= 0)
        return true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return false;
    if (!watched)
        pthread_atfork(NULL, NULL, after_fork);
    watched = true;
    bool ok = fork_guard(fds);
    int error = errno;
    close(fds[1]);
    if (ok)
        guard_fd = fds[0];
    else
        close(fds[0]);
    errno = error;
    return ok;
}

static bool tell(pid_t message)
{
    return send(guard_fd, &message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message;
}

bool guard_add(pid_t group)
{
    if (group_count == MAX_GROUPS) {
        errno = EAGAIN;
        return false;
    }
    if (!tell(group))
        return false;
    group_count++;
    return true;
}

void guard_forget(pid_t group)
{
    if (guard_fd >= 0 && tell(-group))
        group_count--;
}
