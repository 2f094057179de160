/*
 * isolate.c -- see isolate.h.
 *
 *     this process --- clone ---> first process of the namespaces --- fork ---> the program
 *         maps ids <--- status ---'  makes its file system; waits
 */
#define _GNU_SOURCE
#include "isolate.h"

#include "loop/system.h"

#if SYSTEM_IS_LINUX

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* From sys/mount.h, which conflicts with linux/mount.h. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);

enum { INSIDE_ID = 1000, NOBODY = 65534 }; /* NOBODY: of the host, where ponder is root */
enum { OPEN_FILES = 256, PROCESSES = 256, FILE_MB = 64, NOT_FOUND = 127 };
enum { MAX_PATH = 4096, DETACH = 2 /* MNT_DETACH */ };
enum {
    BIND_ATTRIBUTES = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
    DEVICE_ATTRIBUTES = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
    NEW_NAMESPACES =
        CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
};

#define ROOT "/tmp" /* the new root is mounted here and hides what was below */

typedef struct Isolated {
    unsigned long cpu_seconds, memory_mb;
    const char *directory; /* its working directory, read-only; "": /tmp */
    char **program;        /* argv, ends in NULL */
    int tree;              /* a mount of the directory with NOBODY as the owner; -1: none */
} Isolated;

static void refuse(const char *what)
{
    fprintf(stderr, "ponder: cannot isolate the program: %s: %s\n", what, strerror(errno));
    _exit(ISOLATE_FAILED);
}

/* ---- identity ---- */

/* Like fork, into new namespaces. */
static pid_t fork_into(unsigned long namespaces)
{
    pid_t pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, 0UL);
    if (pid < 0)
        refuse("namespaces");
    return pid;
}

static void write_file(pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        refuse(path);
    close(fd);
}

/* In the user namespace of `pid`, `uid` and `gid` of the host are `inside_*`. */
static void map_ids(pid_t pid, unsigned inside_uid, unsigned uid, unsigned inside_gid, unsigned gid)
{
    char map[64];
    write_file(pid, "setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", inside_uid, uid);
    write_file(pid, "uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", inside_gid, gid);
    write_file(pid, "gid_map", map);
}

/* A mount of the current directory in which what belongs to root belongs to NOBODY, so that a
 * program that is NOBODY can read it. -1: the file system, or a container, does not permit that. */
static int map_directory(void)
{
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "",
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return -1;
    pid_t holder = fork_into(CLONE_NEWUSER); /* of a namespace that maps so */
    if (holder == 0)
        for (;;)
            pause();
    char path[64];
    map_ids(holder, 0, NOBODY, getegid(), NOBODY);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)holder);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY,
                                    .userns_fd = (uint64_t) namespace};
    bool mapped = namespace >= 0 && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes,
                                            sizeof attributes) == 0;
    close(namespace);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    if (!mapped) {
        close(tree);
        return -1;
    }
    return tree;
}

/* ---- the file system ---- */

/* `path` in the new root, whose parent directories are created. */
static const char *inside(const char *path)
{
    static char all[MAX_PATH];
    if (snprintf(all, sizeof all, ROOT "%s", path) >= (int)sizeof all) {
        errno = ENAMETOOLONG;
        refuse(path);
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

static void set_attributes(const char *path, uint64_t flags)
{
    struct mount_attr attributes = {.attr_set = flags};
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attributes, sizeof attributes) !=
        0)
        refuse(path);
}

/* Shows a directory, file, device or symbolic link at the same path; skips what does not exist.
 * A device can be written to, but nothing about it be changed. */
static void show(const char *path)
{
    struct stat about;
    char link[MAX_PATH];
    if (lstat(path, &about) != 0)
        return;
    const char *target = inside(path);
    ssize_t n = S_ISLNK(about.st_mode) ? readlink(path, link, sizeof link - 1) : -1;
    if (n >= 0) {
        link[n] = '\0';
        (void)!symlink(link, target);
        return;
    }
    if (S_ISDIR(about.st_mode))
        mkdir(target, 0755);
    else
        close(open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (mount(path, target, NULL, MS_BIND | MS_REC, NULL) != 0)
        refuse(path);
    set_attributes(target, S_ISCHR(about.st_mode) ? DEVICE_ATTRIBUTES : BIND_ATTRIBUTES);
}

/* Shows the current directory at its path, through an overlay: its sockets and FIFOs are other
 * inodes there, which nobody outside listens to. (A read-only mount lets both be used, and no
 * access right, seccomp filter or Landlock rule of Linux 6.1 tells them all from files.) An overlay
 * without an upper layer needs two lower ones: /proc is still empty. */
static void show_directory(const char *path)
{
    const char *target = inside(path);
    mkdir(target, 0755);
    if (mount("ponder", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
              "lowerdir=.:" ROOT "/proc") != 0)
        refuse(errno == EINVAL
                   ? "cwd: a file system is mounted below it, or its own has no overlays"
               : errno == EACCES ? "cwd: nobody, whom programs of root run as, may not read it"
                                 : "cwd");
}

/* Hides a file or directory of /proc, if it exists. A device cannot be opened in a mount without
 * devices. */
static void hide(const char *path)
{
    struct stat about;
    const char *target = inside(path);
    if (stat(target, &about) != 0)
        return;
    if (S_ISDIR(about.st_mode) ? mount("ponder", target, "tmpfs", MS_RDONLY, "mode=555") != 0
                               : mount(ROOT "/dev/null", target, NULL, MS_BIND, NULL) != 0)
        refuse(path);
    set_attributes(target, BIND_ATTRIBUTES);
}

/* What concerns the whole machine is hidden. A container may forbid mounting it at all; most
 * programs can do without. */
static void show_proc(void)
{
    static const char *const hidden[] = {
        "/proc/acpi",       "/proc/asound",   "/proc/bus",           "/proc/fs",
        "/proc/irq",        "/proc/kallsyms", "/proc/kcore",         "/proc/key-users",
        "/proc/keys",       "/proc/kmsg",     "/proc/latency_stats", "/proc/sched_debug",
        "/proc/scsi",       "/proc/sys",      "/proc/sysrq-trigger", "/proc/timer_list",
        "/proc/timer_stats"};
    if (mount("proc", inside("/proc"), "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              NULL) != 0)
        return;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        hide(hidden[i]);
}

static void make_root(const Isolated *p)
{
    static const char *const files[] = {"/usr",
                                        "/bin",
                                        "/sbin",
                                        "/lib",
                                        "/lib32",
                                        "/lib64",
                                        "/libx32",
                                        "/etc/alternatives",
                                        "/etc/ld.so.cache"};
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom"};
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        (p->tree >= 0 &&
         (syscall(SYS_move_mount, p->tree, "", AT_FDCWD, ROOT, MOVE_MOUNT_F_EMPTY_PATH) != 0 ||
          chdir(ROOT) != 0)) ||
        mount("ponder", ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,mode=755") != 0)
        refuse("file system");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        show(files[i]);
    mkdir(inside("/tmp"), 0777);
    mkdir(inside("/proc"), 0555);
    if (*p->directory != '\0')
        show_directory(p->directory);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        show(devices[i]);
    show_proc();
    if (chdir(ROOT) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", DETACH) != 0 ||
        chdir(*p->directory != '\0' ? p->directory : "/tmp") != 0)
        refuse("root");
}

/* ---- limits ---- */

static void limit(int what, rlim_t max)
{
    if ((errno = system_limit(what, max, max)) != 0)
        refuse("limits");
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

static void run_program(const Isolated *p)
{
    enter_limits(p);
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        *variable += **variable == ISOLATE_MARK;
    execvp(p->program[0], p->program);
    fprintf(stderr, "ponder: cannot start %s: %s\n", p->program[0], strerror(errno));
    _exit(NOT_FOUND);
}

/* The first process of the PID namespace: the kernel kills all others when it ends. Its
 * capabilities keep the program from tracing it. */
static void run_first(const Isolated *p, int parent)
{
    char mapped;
    int status = 0;
    if (read(parent, &mapped, 1) != 1)
        _exit(ISOLATE_FAILED);
    if (setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID) != 0 ||
        setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID) != 0)
        refuse("ids");
    system_die_with_parent();
    make_root(p);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        refuse("privileges");
    pid_t pid = p->program[0] != NULL ? fork() : 0;
    if (pid == 0 && p->program[0] != NULL)
        run_program(p);
    else if (pid < 0)
        refuse("fork");
    for (pid_t ended = 0; pid > 0 && ended != pid;)
        ended = wait(&status);
    (void)!write(parent, &status, sizeof status);
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

static int run(const Isolated *p, bool is_root)
{
    int ends[2], status, first = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        refuse("socket");
    pid_t pid = fork_into(NEW_NAMESPACES);
    if (pid == 0) {
        close(ends[0]);
        run_first(p, ends[1]);
    }
    close(ends[1]);
    map_ids(pid, INSIDE_ID, is_root ? NOBODY : geteuid(), INSIDE_ID, is_root ? NOBODY : getegid());
    (void)!write(ends[0], "", 1);
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
                  .program = argv + 5,
                  .tree = -1};
    char directory[MAX_PATH];
    bool is_root = geteuid() == 0;
    if (close_range(3, ~0U, 0) != 0 || (is_root && setgroups(0, NULL) != 0))
        refuse("descriptors and groups");
    if (*p.directory != '\0') {
        if (chdir(p.directory) != 0 || getcwd(directory, sizeof directory) == NULL)
            refuse(argv[4]);
        p.directory = directory;
        if (strcmp(p.directory, "/") == 0) {
            fputs("ponder: cannot isolate the program: cwd is /, which holds all files\n", stderr);
            return ISOLATE_FAILED;
        }
        p.tree = is_root ? map_directory() : -1;
    }
    /* Keys of the session, and what is searched for through it, stay outside. */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
        errno != EPERM) /* EPERM: a container forbids the program keyctl, too */
        refuse("keyring");
    return run(&p, is_root);
}

#else

#include <stdio.h>

int isolate_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    fputs("ponder: cannot isolate the program: this system has no namespaces\n", stderr);
    return ISOLATE_FAILED;
}

#endif
