/* confine.c -- see confine.h. */
#define _GNU_SOURCE /* ppoll */
#include "api/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/task_stop.h"
#include "loop/loop.h"
#include "loop/system.h"

#if SYSTEM_IS_LINUX

#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* ---- landlock ---- */

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool confine_has_landlock(void)
{
    return landlock_version() > 0;
}

/* Fields are written by number, since the running kernel may be newer than our headers. An access
 * that is handled and has no rule is refused. */
static int enter_landlock(void)
{
    enum { FILES_V1 = 0x1fff, FILES_V2 = 0x2000, FILES_V3 = 0x4000, FILES_V5 = 0x8000 };
    long version = landlock_version();
    uint64_t rules[3] = {FILES_V1, 0, 0}; /* of files, of TCP, of what reaches other processes */
    size_t size = sizeof rules[0];
    rules[0] |= (version >= 2 ? FILES_V2 : 0) | (version >= 3 ? FILES_V3 : 0) |
                (version >= 5 ? FILES_V5 : 0);
    if (version >= 4) {
        rules[1] = 3; /* bind, connect */
        size = 2 * sizeof rules[0];
    }
    if (version >= 6) {
        rules[2] = 3; /* abstract sockets, signals */
        size = sizeof rules;
    }
    int fd = (int)syscall(SYS_landlock_create_ruleset, rules, size, 0);
    if (fd < 0)
        return errno;
    int error = syscall(SYS_landlock_restrict_self, fd, 0) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* ---- seccomp ---- */

bool confine_has_seccomp(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 && seccomp_api_get() > 0;
}

static const int allowed_calls[] = {
    SCMP_SYS(read),           SCMP_SYS(write),         SCMP_SYS(readv),
    SCMP_SYS(writev),         SCMP_SYS(close),         SCMP_SYS(lseek),
    SCMP_SYS(fstat),          SCMP_SYS(brk),           SCMP_SYS(munmap),
    SCMP_SYS(mremap),         SCMP_SYS(madvise),       SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),  SCMP_SYS(sigaltstack),
    SCMP_SYS(futex),          SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),   SCMP_SYS(time),          SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),      SCMP_SYS(poll),          SCMP_SYS(ppoll),
    SCMP_SYS(epoll_wait),     SCMP_SYS(epoll_pwait),   SCMP_SYS(epoll_ctl),
    SCMP_SYS(setitimer),      SCMP_SYS(getrandom),     SCMP_SYS(getpid),
    SCMP_SYS(gettid),         SCMP_SYS(sched_yield),   SCMP_SYS(restart_syscall),
    SCMP_SYS(rseq),           SCMP_SYS(sendto),        SCMP_SYS(recvfrom),
    SCMP_SYS(exit),           SCMP_SYS(exit_group),
};

static int fill_filter(scmp_filter_ctx filter)
{
    static const int fatal_calls[] = {SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace),
                                      SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev)};
    static const int memory_calls[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof allowed_calls / sizeof *allowed_calls; i++)
        error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_calls[i], 0);
    for (size_t i = 0; error == 0 && i < sizeof fatal_calls / sizeof *fatal_calls; i++)
        error = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, fatal_calls[i], 0);
    for (size_t i = 0; error == 0 && i < 2; i++) /* no memory is made executable */
        error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, memory_calls[i], 1,
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return error;
}

static int enter_seccomp(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL)
        return ENOMEM;
    int error = fill_filter(filter);
    if (error == 0)
        error = seccomp_load(filter);
    seccomp_release(filter);
    return -error;
}

/* Dies with the parent, even in the middle of a computation; gains no rights, and nobody traces it.
 */
static int enter_process(void)
{
    system_die_with_parent();
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
               ? 0
               : errno;
}

#else

/* Only the rlimits are left, which `confined.check` and doctor report. */
bool confine_has_landlock(void)
{
    return false;
}

bool confine_has_seccomp(void)
{
    return false;
}

static int nothing(void)
{
    return 0;
}

#define enter_process  nothing
#define enter_landlock nothing
#define enter_seccomp  nothing

#endif

/* ---- rlimits ---- */

static int enter_limits(size_t memory, long cpu_seconds)
{
#ifdef __SANITIZE_ADDRESS__ /* its shadow memory takes terabytes of address space */
    memory = 0;
#endif
    rlim_t cpu = (rlim_t)cpu_seconds;
    int error = system_limit(RLIMIT_CORE, 0, 0);
    if (error == 0)
        error = system_limit(RLIMIT_FSIZE, 0, 0);
    if (error == 0)
        error = system_limit(RLIMIT_NPROC, 0, 0);
    if (error == 0 && memory > 0)
        error = system_limit(RLIMIT_AS, memory, memory);
    if (error == 0 && cpu > 0) /* SIGXCPU comes first and tells why it ends */
        error = system_limit(RLIMIT_CPU, cpu > 1 ? cpu - 1 : cpu, cpu);
    return error;
}

int confine_enter(size_t memory, long cpu_seconds)
{
    int error = enter_process();
    if (error == 0)
        error = enter_limits(memory, cpu_seconds);
    if (error == 0 && confine_has_landlock())
        error = enter_landlock();
    if (error == 0 && confine_has_seccomp())
        error = enter_seccomp();
    return error;
}

/* ---- the child ---- */

/* In its own session, Ctrl-C only reaches the parent. */
static bool shed(int fd)
{
    sigset_t none;
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    fd = fcntl(fd, F_DUPFD_CLOEXEC, CONFINE_FD + 1); /* away from where it goes */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int standard = 0; standard <= 2; standard++)
        if (dup2(null, standard) < 0)
            return false;
    return dup2(fd, CONFINE_FD) >= 0 && system_close_from(CONFINE_FD + 1, false) &&
           sigprocmask(SIG_SETMASK, &none, NULL) == 0;
}

void confine_execute(void *unused)
{
    static char name[] = "ponder", argument[] = CONFINE_ARGUMENT;
    char *const argv[] = {name, argument, NULL}, *const no_environment[] = {NULL};
    (void)unused;
    execve(system_program(), argv, no_environment);
}

int confine_fork(void (*run)(void *arg), void *arg, pid_t *pid, int *fd)
{
    int ends[2];
    sigset_t all, before;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return errno;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of ours runs in the child */
    *pid = fork();
    int error = errno;
    if (*pid == 0) {
        if (shed(ends[1]))
            run(arg);
        _exit(EXIT_FAILURE);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return error;
    }
    *fd = ends[0];
    return 0;
}

/* ---- waiting ---- */

/* Waits for events of `fd`. Signals are blocked from the check for a stop until the wait, so that
 * none is missed. Returns 0, EINTR or ETIMEDOUT. */
static int await(int fd, short events, double deadline)
{
    struct pollfd poll = {.fd = fd, .events = events};
    struct timespec left = {0};
    sigset_t all, before;
    double seconds = deadline > 0 ? fmin(deadline - loop_now(), 1e9) : 0;
    if (seconds < 0)
        return ETIMEDOUT;
    left.tv_sec = (time_t)seconds;
    left.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool stops = task_stop_is_due();
    int ready = stops ? 0 : ppoll(&poll, 1, deadline > 0 ? &left : NULL, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return stops ? EINTR : ready == 0 ? ETIMEDOUT : 0;
}

int confine_transfer(int fd, void *bytes, size_t n, bool out, double deadline)
{
    char *at = bytes;
    while (n > 0) {
        ssize_t done =
            out ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);
        if (done == 0)
            return EPIPE;
        if (done < 0 && errno != EAGAIN && errno != EINTR)
            return errno;
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
        int error = done < 0 ? await(fd, out ? POLLOUT : POLLIN, deadline) : 0;
        if (error != 0)
            return error;
    }
    return 0;
}

void confine_await(pid_t pid, double seconds)
{
    int fd = system_watch_child(pid); /* poll ignores -1 */
    await(fd, POLLIN, loop_now() + seconds);
    if (fd >= 0)
        close(fd);
}
