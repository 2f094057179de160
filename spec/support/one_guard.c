/*
 * one_guard.c -- for LD_PRELOAD: a kernel that has Landlock or seccomp, whichever $GUARD names, not
 * both.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int prctl(int option, ...);
long syscall(long number, ...);

static int lacks(const char *guard)
{
    const char *only = getenv("GUARD");
    errno = ENOSYS;
    return only != NULL && strcmp(only, guard) != 0;
}

static void read_arguments(va_list list, long *a, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = va_arg(list, long);
}

int prctl(int option, ...)
{
    long a[4];
    va_list list;
    va_start(list, option);
    read_arguments(list, a, 4);
    va_end(list);
    if (option == PR_GET_SECCOMP && lacks("seccomp"))
        return -1;
    return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    read_arguments(list, a, 6);
    va_end(list);
    if (number == SYS_landlock_create_ruleset && lacks("landlock"))
        return -1;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
