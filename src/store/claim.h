/*
 * claim.h -- a descriptor and a lock on a store's file, beside SQLite's own.
 *
 * SQLite's locks are POSIX locks, which a process loses when it closes any descriptor of the file.
 * So there is one claim for each file and process, shared by all stores of that file; its
 * descriptor is closed after the last of them.
 *
 * The claim's lock makes one process the only writer. It is an flock, independent of POSIX locks,
 * and ends with the process. Readers do not take it.
 */
#ifndef PONDER_STORE_CLAIM_H
#define PONDER_STORE_CLAIM_H

#include <sys/queue.h>
#include <sys/types.h>

#include "store/failure.h"

typedef struct Claim {
    SLIST_ENTRY(Claim) link;
    dev_t device;
    ino_t inode;
    int fd;
    int stores;  /* of this process that have the file open */
    bool locked; /* one of them is the writer */
} Claim;

/* Opens a regular file; with `create` it must not exist, and becomes an empty one of our own. */
StoreStatus claim_open(const char *path, bool create, Claim **out, StoreError *e);

/* Makes the caller the only writer; STORE_LOCKED if there is another, in any process. */
StoreStatus claim_lock(Claim *claim, StoreError *e);

/* Releases the claim, and the lock if `locked`. Call it after SQLite has closed the file. */
void claim_close(Claim *claim, bool locked);

#endif
