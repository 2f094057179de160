/* private.c -- see private.h. */
#include "store/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0600, DIRECTORY_MODE = 0700, OTHERS = 077, OTHERS_WRITE = 022 };

static bool is_own(const struct stat *file)
{
    return file->st_uid == geteuid();
}

/* Whether anyone but us and root may create, rename and link files in the path's directory. */
static bool is_shared_directory(const char *path)
{
    struct stat found;
    const char *slash = strrchr(path, '/');
    char *directory = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    bool shared = directory == NULL || stat(directory, &found) != 0 ||
                  (found.st_mode & OTHERS_WRITE) != 0 || (!is_own(&found) && found.st_uid != 0);
    free(directory);
    return shared;
}

const char *private_refusal(const char *path, int fd)
{
    struct stat file, named;
    if (lstat(path, &named) != 0 || !is_shared_directory(path))
        return NULL;
    if (fd >= 0 && fstat(fd, &file) == 0 && !S_ISREG(file.st_mode))
        return NULL; /* a device */
    if (S_ISREG(named.st_mode) && is_own(&named) && named.st_nlink == 1 &&
        (fd < 0 || (named.st_dev == file.st_dev && named.st_ino == file.st_ino)))
        return NULL;
    return "is a link, or belongs to another user, in a directory where others may write";
}

void private_tighten(const char *path)
{
    struct stat file;
    if (lstat(path, &file) == 0 && S_ISREG(file.st_mode) && is_own(&file) &&
        (file.st_mode & OTHERS) != 0)
        fchmodat(AT_FDCWD, path, file.st_mode & DIRECTORY_MODE, AT_SYMLINK_NOFOLLOW);
}

int private_create(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (fd >= 0)
        fchmod(fd, FILE_MODE);
    return fd;
}

int private_open(const char *path, const char **why)
{
    *why = NULL;
    int fd = private_create(path);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fd;
    struct stat file;
    *why = private_refusal(path, fd);
    if (*why == NULL && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && ftruncate(fd, 0) != 0)
        *why = "cannot be emptied";
    if (*why == NULL)
        return fd;
    close(fd);
    return -1;
}

static int make_directory(const char *path)
{
    if (mkdir(path, DIRECTORY_MODE) == 0)
        return chmod(path, DIRECTORY_MODE) == 0 ? 0 : errno;
    return errno == EEXIST ? 0 : errno;
}

int private_make_directories(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return ENOMEM;
    int error = 0;
    for (char *at = strchr(copy + (*copy != '\0'), '/'); error == 0 && at != NULL;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        error = make_directory(copy);
        *at = '/';
    }
    if (error == 0)
        error = make_directory(copy);
    free(copy);
    return error;
}
