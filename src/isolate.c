/*
 * isolate.c -- see isolate.h.
 *
 *     this process --- fork ---> first process of the PID namespace --- fork ---> the program
 *          waits <--- status ---'  makes its file system; waits
 */
#define _GNU_SOURCE
#include "isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* From sys/mount.h, which conflicts with linux/mount.h. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);

enum { INSIDE_UID = 1000, OPEN_FILES = 256, PROCESSES = 256, FILE_MB = 64, NOT_FOUND = 127 };
enum { MAX_PATH = 4096, DETACH = 2 /* MNT_DETACH */ };

#define ROOT "/tmp" /* the new root is mounted here and hides what was below */

typedef struct Isolated {
    unsigned long cpu_seconds, memory_mb;
    const char *directory; /* its working directory, read-only; "": /tmp */
    char **program;        /* argv, ends in NULL */
} Isolated;

static void fail(const char *what)
{
    fprintf(stderr, "ponder: cannot isolate the program: %s: %s\n", what, strerror(errno));
    _exit(ISOLATE_FAILED);
}

/* ---- namespaces ---- */

static void write_file(const char *path, const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        fail(path);
    close(fd);
}

static void enter_namespaces(void)
{
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                CLONE_NEWUTS) != 0)
        fail("namespaces");
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "%d %u 1", INSIDE_UID, uid);
    write_file("/proc/self/gid_map", "%d %u 1", INSIDE_UID, gid);
}

/* ---- the file system ---- */

/* `path` in the new root, whose parent directories are created. */
static const char *inside(const char *path)
{
    static char all[MAX_PATH];
    if (snprintf(all, sizeof all, ROOT "%s", path) >= (int)sizeof all) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    for (char *at = all + sizeof ROOT; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(all, 0755);
            *at = '/';
        }
    }
    return all;
}

static void set_read_only(const char *path)
{
    struct mount_attr attributes = {.attr_set =
                                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attributes, sizeof attributes) !=
        0)
        fail(path);
}

static void show(const char *source, const char *path, mode_t type)
{
    const char *target = inside(path);
    if (type == S_IFDIR)
        mkdir(target, 0755);
    else
        close(open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) != 0)
        fail(path);
    if (type != S_IFCHR)
        set_read_only(target);
}

/* Shows a directory, file, device or symbolic link at the same path; skips what does not exist. */
static void show_same(const char *path)
{
    struct stat about;
    char target[MAX_PATH];
    if (lstat(path, &about) != 0)
        return;
    if (!S_ISLNK(about.st_mode)) {
        show(path, path, about.st_mode & S_IFMT);
        return;
    }
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n > 0) {
        target[n] = '\0';
        (void)!symlink(target, inside(path));
    }
}

/* Opened before the new /tmp may hide it. */
static int open_directory(const Isolated *p)
{
    int fd = *p->directory != '\0' ? open(p->directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 && *p->directory != '\0')
        fail(p->directory);
    return fd;
}

static void show_directory(const Isolated *p, int fd)
{
    char source[64];
    if (fd < 0)
        return;
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    show(source, p->directory, S_IFDIR);
    close(fd);
}

static void make_root(const Isolated *p)
{
    static const char *const shown[] = {"/usr",
                                        "/bin",
                                        "/sbin",
                                        "/lib",
                                        "/lib32",
                                        "/lib64",
                                        "/libx32",
                                        "/etc/alternatives",
                                        "/etc/ld.so.cache",
                                        "/dev/null",
                                        "/dev/zero",
                                        "/dev/full",
                                        "/dev/random",
                                        "/dev/urandom"};
    int fd = open_directory(p);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("ponder", ROOT, "tmpfs", MS_NOSUID, "size=64m,mode=755") != 0)
        fail("file system");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        show_same(shown[i]);
    mkdir(inside("/tmp"), 0777);
    mkdir(inside("/proc"),
          0555); /* containers may forbid mounting it: most programs can do without */
    (void)!mount("proc", inside("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    show_directory(p, fd);
    if (chdir(ROOT) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", DETACH) != 0 ||
        chdir(fd >= 0 ? p->directory : "/tmp") != 0)
        fail("root");
}

/* ---- limits ---- */

static void limit(int what, rlim_t max)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)what, &now) != 0)
        fail("limits");
    if (now.rlim_max < max)
        max = now.rlim_max;
    now.rlim_cur = now.rlim_max = max;
    if (setrlimit((__rlimit_resource_t)what, &now) != 0)
        fail("limits");
}

static void enter_limits(const Isolated *p)
{
    limit(RLIMIT_AS, (rlim_t)p->memory_mb << 20);
    limit(RLIMIT_CPU, p->cpu_seconds);
    limit(RLIMIT_FSIZE, (rlim_t)FILE_MB << 20);
    limit(RLIMIT_NOFILE, OPEN_FILES);
    limit(RLIMIT_NPROC, PROCESSES);
    limit(RLIMIT_CORE, 0);
}

/* ---- processes ---- */

static void unmark_environment(void)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        *variable += **variable == ISOLATE_MARK;
}

static void run_program(const Isolated *p)
{
    enter_limits(p);
    unmark_environment();
    execvp(p->program[0], p->program);
    fprintf(stderr, "ponder: cannot start %s: %s\n", p->program[0], strerror(errno));
    _exit(NOT_FOUND);
}

/* The first process of the PID namespace: the kernel kills all others when it ends. */
static void run_first(const Isolated *p, int report)
{
    int status = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    make_root(p);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("privileges");
    pid_t pid = p->program[0] != NULL ? fork() : 0;
    if (pid == 0 && p->program[0] != NULL)
        run_program(p);
    else if (pid < 0)
        fail("fork");
    for (pid_t ended = 0; pid > 0 && ended != pid;)
        ended = wait(&status);
    (void)!write(report, &status, sizeof status);
    _exit(0);
}

/* Ends this process the way the program ended. */
static int end_as(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    limit(RLIMIT_CORE, 0);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static int run(const Isolated *p)
{
    int ends[2], status, first = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        fail("pipe");
    enter_namespaces();
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0)
        run_first(p, ends[1]);
    close(ends[1]);
    bool received = read(ends[0], &status, sizeof status) == sizeof status;
    waitpid(pid, &first, 0);
    return end_as(received ? status : first);
}

int isolate_main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("ponder: " ISOLATE_ARGUMENT " is for internal use\n", stderr);
        return ISOLATE_FAILED;
    }
    Isolated p = {.cpu_seconds = strtoul(argv[2], NULL, 10),
                  .memory_mb = strtoul(argv[3], NULL, 10),
                  .directory = argv[4],
                  .program = argv + 5};
    if (*p.directory != '\0' && (p.directory = realpath(p.directory, NULL)) == NULL)
        fail(argv[4]);
    return run(&p);
}
