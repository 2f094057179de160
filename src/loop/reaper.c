/*
 * reaper.c -- see reaper.h.
 *
 * PR_SET_PDEATHSIG reaches a child, but not the programs that a shell has started; atexit handlers
 * do not run after SIGKILL. So a separate process knows the process groups of our children, and
 * kills them when its socket says that we are gone.
 *
 *     we ----- socket: +group, -group ----> reaper       socket closes: kill(-group, SIGKILL)
 */
#define _GNU_SOURCE /* close_range */
#include "loop/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_GROUPS = 4096 };

static int reaper_fd = -1; /* our end of the socket */
static int group_count;    /* that the reaper knows */
static pid_t forking_from; /* our pid between reaper_begin_fork and reaper_end_fork, else 0 */

/* ---- the reaper's side: only calls that are safe after a fork ---- */

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

static void detach(int fd)
{
    int null = open("/dev/null", O_RDWR);
    setsid();
    prctl(PR_SET_NAME, "ponder-reaper");
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    dup2(fd, 3);
    close_range(4, ~0U, 0);
}

static _Noreturn void run_reaper(int fd)
{
    static pid_t groups[MAX_GROUPS];
    int count = 0;
    pid_t message;
    ssize_t n;
    detach(fd);
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

/* ---- our side ---- */

/* Runs in every forked child: it has no reaper yet, and a child of process.c must die with us. */
static void after_fork(void)
{
    reaper_fd = -1;
    group_count = 0;
    if (forking_from == 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != forking_from)
        _exit(127);
}

void reaper_begin_fork(void)
{
    forking_from = getpid();
}

void reaper_end_fork(void)
{
    forking_from = 0;
}

/* Signals stay blocked in the reaper, which would otherwise run our handlers. */
static bool fork_reaper(const int fds[2])
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        run_reaper(fds[1]);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid > 0;
}

bool reaper_open(void)
{
    static bool registered;
    int fds[2];
    if (reaper_fd >= 0)
        return true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return false;
    if (!registered)
        pthread_atfork(NULL, NULL, after_fork);
    registered = true;
    bool ok = fork_reaper(fds);
    int error = errno;
    close(fds[1]);
    if (ok)
        reaper_fd = fds[0];
    else
        close(fds[0]);
    errno = error;
    return ok;
}

static bool tell(pid_t message)
{
    return send(reaper_fd, &message, sizeof message, MSG_NOSIGNAL) == (ssize_t)sizeof message;
}

bool reaper_add(pid_t group)
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

void reaper_forget(pid_t group)
{
    if (reaper_fd >= 0 && tell(-group))
        group_count--;
}
