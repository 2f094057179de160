/* claim.c -- see claim.h. */
#define _DEFAULT_SOURCE /* flock */
#include "store/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/private.h"

enum { MAX_TRIES = 8 }; /* while others create the same file */

/* Of this process; guarded by a mutex, for Lua states in other threads. */
static SLIST_HEAD(, Claim) claims;

static sqlite3_mutex *enter(void)
{
    sqlite3_mutex *mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
    sqlite3_mutex_enter(mutex);
    return mutex;
}

static Claim *find(const struct stat *file)
{
    Claim *claim = SLIST_FIRST(&claims);
    while (claim != NULL && (claim->device != file->st_dev || claim->inode != file->st_ino))
        claim = SLIST_NEXT(claim, link);
    return claim;
}

static StoreStatus check_kind(const struct stat *file, StoreError *e)
{
    if (S_ISREG(file->st_mode))
        return STORE_OK;
    return store_fail(e, STORE_NOT_A_LOG, "is %s",
                      S_ISDIR(file->st_mode) ? "a directory" : "not a regular file");
}

/* Adds a claim for the open file, which has none yet. */
static StoreStatus add(int fd, const struct stat *file, Claim **out, StoreError *e)
{
    Claim *claim = malloc(sizeof *claim);
    if (claim == NULL) {
        close(fd);
        return store_fail(e, STORE_MEMORY, "not enough memory");
    }
    *claim = (Claim){.device = file->st_dev, .inode = file->st_ino, .fd = fd, .stores = 1};
    SLIST_INSERT_HEAD(&claims, claim, link);
    *out = claim;
    return STORE_OK;
}

/* Locks the open file. False also if `path` no longer names it: checked after locking, so that it
 * cannot change in between. */
static bool lock_named(int fd, const char *path)
{
    struct stat opened, named;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 &&
           lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Removes an unfinished file unless somebody is still writing it. */
static void remove_unfinished(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (lock_named(fd, path))
        unlink(path);
    close(fd);
}

/* The new file is locked, so that nobody takes it for an unfinished one. */
static int create_file(const char *path)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        int fd = private_create(path);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd < 0)
            remove_unfinished(path);
        else if (lock_named(fd, path))
            return fd;
        else
            close(fd); /* removed before it was locked */
    }
    errno = EWOULDBLOCK;
    return -1;
}

static StoreStatus open_file(const char *path, bool create, Claim **out, StoreError *e)
{
    struct stat file;
    int fd = create ? create_file(path) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return store_fail_errno(e, create ? "cannot be created" : "cannot be read", errno);
    if (fstat(fd, &file) != 0) {
        int error = errno;
        close(fd);
        return store_fail_errno(e, "cannot be read", error);
    }
    Claim *other = find(&file);
    if (other != NULL) { /* renamed just now. `fd` stays open: closing it would drop the locks */
        other->stores++;
        *out = other;
        return STORE_OK;
    }
    return add(fd, &file, out, e);
}

StoreStatus claim_open(const char *path, bool create, Claim **out, StoreError *e)
{
    struct stat file;
    if (!create) { /* checked before opening, since opening a pipe may block */
        if (stat(path, &file) != 0)
            return store_fail_errno(e, "cannot be read", errno);
        if (check_kind(&file, e) != STORE_OK)
            return STORE_NOT_A_LOG;
    }
    sqlite3_mutex *mutex = enter();
    StoreStatus status = STORE_OK;
    Claim *known = create ? NULL : find(&file);
    if (known != NULL) {
        known->stores++;
        *out = known;
    } else {
        status = open_file(path, create, out, e);
    }
    sqlite3_mutex_leave(mutex);
    return status;
}

StoreStatus claim_lock(Claim *claim, StoreError *e)
{
    sqlite3_mutex *mutex = enter();
    StoreStatus status = STORE_OK;
    if (claim->locked)
        status = store_fail(e, STORE_LOCKED, "this process is already writing it");
    else if (flock(claim->fd, LOCK_EX | LOCK_NB) == 0)
        claim->locked = true;
    else if (errno == EWOULDBLOCK)
        status = store_fail(e, STORE_LOCKED, "another run is writing it");
    else
        status = store_fail_errno(e, "cannot be locked", errno);
    sqlite3_mutex_leave(mutex);
    return status;
}

static void unlock(Claim *claim)
{
    flock(claim->fd, LOCK_UN);
    claim->locked = false;
}

void claim_unlock(Claim *claim)
{
    sqlite3_mutex *mutex = enter();
    unlock(claim);
    sqlite3_mutex_leave(mutex);
}

void claim_close(Claim *claim, bool locked)
{
    sqlite3_mutex *mutex = enter();
    if (locked)
        unlock(claim);
    if (--claim->stores == 0) {
        SLIST_REMOVE(&claims, claim, Claim, link);
        close(claim->fd);
        free(claim);
    }
    sqlite3_mutex_leave(mutex);
}
