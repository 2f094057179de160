/*
 * failing_disk.c -- a library for LD_PRELOAD: writing to a database fails (failing_disk.lua).
 *
 *   PONDER_FAIL_AT=N         the Nth call that writes to one fails; without it nothing does
 *   PONDER_FAIL_TIMES=M      and M - 1 more after it; default: all
 *   PONDER_FAIL_ERROR=E      ENOSPC (default), EIO, EDQUOT; or KILL: half of it is written, and the
 *                            process is killed; or INT, TERM, HUP: it gets that signal, and the
 *                            call works
 *   PONDER_FAIL_LOG=FILE     gets a line for each call that writes: "write a.db-wal", "failed ..."
 *
 * Those calls are write, pwrite, fsync, fdatasync, ftruncate and fallocate on files whose names end
 * in .db, .db-wal, .db-journal or .db-shm.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t n);
int fallocate64(int fd, int mode, off64_t from, off64_t n);

static void *next_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* *f = the function of that name behind this one. */
#define BEHIND(f, name)                                                                            \
    do {                                                                                           \
        if ((f) == NULL)                                                                           \
            *(void **)&(f) = next_of(name);                                                        \
    } while (0)

static long number(const char *name, long missing)
{
    const char *text = getenv(name);
    return text != NULL ? atol(text) : missing;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_database(int fd, char *path, size_t size)
{
    static const char *const ends[] = {".db", ".db-wal", ".db-journal", ".db-shm"};
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(path, ends[i]))
            return true;
    return false;
}

static void keep_log(const char *call, const char *path, bool fails)
{
    const char *log = getenv("PONDER_FAIL_LOG"), *name = strrchr(path, '/');
    int fd = log != NULL ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        char line[300];
        int n = snprintf(line, sizeof line, "%s%s %.200s\n", fails ? "failed " : "", call,
                         name != NULL ? name + 1 : path);
        syscall(SYS_write, fd, line, (size_t)n);
        close(fd);
    }
}

/* Sends the signal that PONDER_FAIL_ERROR names, if it names one. */
static bool is_signal(const char *name)
{
    int signo = strcmp(name, "INT") == 0    ? SIGINT
                : strcmp(name, "TERM") == 0 ? SIGTERM
                : strcmp(name, "HUP") == 0  ? SIGHUP
                                            : 0;
    return signo != 0 && raise(signo) == 0;
}

/* Whether this call is to fail, and how: errno, or 0 for KILL; -1 if it is not. */
static int failure(int fd, const char *call)
{
    static long calls;
    char path[4096];
    int saved = errno;
    bool counts = is_database(fd, path, sizeof path);
    errno = saved;
    if (!counts)
        return -1;
    long at = number("PONDER_FAIL_AT", 0), times = number("PONDER_FAIL_TIMES", -1);
    calls++;
    bool fails = at > 0 && calls >= at && (times < 0 || calls < at + times);
    keep_log(call, path, fails);
    errno = saved;
    if (!fails)
        return -1;
    const char *error = getenv("PONDER_FAIL_ERROR");
    if (error == NULL)
        return ENOSPC;
    if (is_signal(error))
        return -1;
    return strcmp(error, "EIO") == 0      ? EIO
           : strcmp(error, "EDQUOT") == 0 ? EDQUOT
           : strcmp(error, "KILL") == 0   ? 0
                                          : ENOSPC;
}

static int fail(int error)
{
    if (error == 0)
        kill(getpid(), SIGKILL);
    errno = error;
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    static ssize_t (*behind)(int, const void *, size_t);
    BEHIND(behind, "write");
    int error = failure(fd, "write");
    if (error == 0)
        behind(fd, bytes, n / 2);
    return error < 0 ? behind(fd, bytes, n) : fail(error);
}

static ssize_t put(ssize_t (*behind)(int, const void *, size_t, off64_t), int fd, const void *bytes,
                   size_t n, off64_t at)
{
    int error = failure(fd, "write");
    if (error == 0)
        behind(fd, bytes, n / 2, at);
    return error < 0 ? behind(fd, bytes, n, at) : fail(error);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    static ssize_t (*behind)(int, const void *, size_t, off64_t);
    BEHIND(behind, "pwrite64");
    return put(behind, fd, bytes, n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    static ssize_t (*behind)(int, const void *, size_t, off64_t);
    BEHIND(behind, "pwrite64");
    return put(behind, fd, bytes, n, at);
}

int fsync(int fd)
{
    static int (*behind)(int);
    BEHIND(behind, "fsync");
    int error = failure(fd, "sync");
    return error < 0 ? behind(fd) : fail(error);
}

int fdatasync(int fd)
{
    static int (*behind)(int);
    BEHIND(behind, "fdatasync");
    int error = failure(fd, "sync");
    return error < 0 ? behind(fd) : fail(error);
}

int ftruncate(int fd, off_t size)
{
    static int (*behind)(int, off_t);
    BEHIND(behind, "ftruncate");
    int error = failure(fd, "truncate");
    return error < 0 ? behind(fd, size) : fail(error);
}

int ftruncate64(int fd, off64_t size)
{
    static int (*behind)(int, off64_t);
    BEHIND(behind, "ftruncate64");
    int error = failure(fd, "truncate");
    return error < 0 ? behind(fd, size) : fail(error);
}

int fallocate(int fd, int mode, off_t from, off_t n)
{
    static int (*behind)(int, int, off_t, off_t);
    BEHIND(behind, "fallocate");
    int error = failure(fd, "allocate");
    return error < 0 ? behind(fd, mode, from, n) : fail(error);
}
