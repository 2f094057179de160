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

static SLIST_HEAD(, Claim) claims; /* of this process */

StoreStatus claim_open(const char *path, bool create, Claim **out, StoreError *e)
{
    struct stat file;
    int fd = -1;
    if (create && (fd = private_create(path)) < 0)
        return store_fail_errno(e, "cannot be created", errno);
    if (stat(path, &file) != 0) /* before opening, since opening a pipe may block */
        return store_fail_errno(e, "cannot be read", errno);
    if (!S_ISREG(file.st_mode))
        return store_fail(e, STORE_NOT_A_LOG, "is %s",
                          S_ISDIR(file.st_mode) ? "a directory" : "not a regular file");
    Claim *claim;
    SLIST_FOREACH(claim, &claims, link)
    if (claim->device == file.st_dev && claim->inode == file.st_ino)
        break;
    if (claim == NULL) {
        if (fd < 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            return store_fail_errno(e, "cannot be read", errno);
        claim = calloc(1, sizeof *claim);
        if (claim == NULL || fstat(fd, &file) != 0) {
            free(claim);
            close(fd);
            return store_fail(e, STORE_MEMORY, "not enough memory");
        }
        claim->device = file.st_dev;
        claim->inode = file.st_ino;
        claim->fd = fd;
        SLIST_INSERT_HEAD(&claims, claim, link);
    }
    claim->stores++;
    *out = claim;
    return STORE_OK;
}

StoreStatus claim_lock(Claim *claim, StoreError *e)
{
    if (claim->locked)
        return store_fail(e, STORE_LOCKED, "this process is already writing it");
    if (flock(claim->fd, LOCK_EX | LOCK_NB) == 0) {
        claim->locked = true;
        return STORE_OK;
    }
    if (errno == EWOULDBLOCK)
        return store_fail(e, STORE_LOCKED, "another run is writing it");
    return store_fail_errno(e, "cannot be locked", errno);
}

void claim_close(Claim *claim, bool locked)
{
    if (locked) {
        flock(claim->fd, LOCK_UN);
        claim->locked = false;
    }
    if (--claim->stores == 0) {
        SLIST_REMOVE(&claims, claim, Claim, link);
        close(claim->fd);
        free(claim);
    }
}
