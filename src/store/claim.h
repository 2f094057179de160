/*
 * claim.h -- the descriptor that this process has of a file, beside SQLite's own.
 *
 * SQLite's locks are POSIX locks, and a process loses those that it has on a file as soon as it
 * closes any descriptor of it. So a process has one claim a file, shared by all its stores of that
 * file, and its descriptor is closed after the last of them.
 *
 * The claim's own lock, which makes one process the writer, is flock's: the kernel keeps the two
 * kinds apart, and drops it when the process ends, however it ends. Readers do not ask for it.
 */
#ifndef PONDER_STORE_CLAIM_H
#define PONDER_STORE_CLAIM_H

#include <sys/types.h>

#include "store/failure.h"

typedef struct Claim {
    struct Claim *next;
    dev_t device;
    ino_t inode;
    int fd;
    int stores;  /* of this process that have the file open */
    bool locked; /* one of them is the writer */
} Claim;

#define CLAIM_STAGING "-new" /* behind the name of a file that is being made */

/* Opens the file, which must be a regular one. With `create` makes it, in the place of one that
 * somebody who was killed did not finish. */
StoreStatus claim_take(const char *path, bool create, Claim **out, StoreError *e);

/* Makes the caller the only writer; STORE_LOCKED if there is one, in this process or another. */
StoreStatus claim_lock(Claim *claim, StoreError *e);

/* Lets others be the writer. */
void claim_unlock(Claim *claim);

/* Gives up what claim_take gave, after SQLite has closed the file, and the lock if `locked`. */
void claim_drop(Claim *claim, bool locked);

#endif
