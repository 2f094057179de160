/*
 * held.h -- rows that are held back in memory, and written by a thread if that takes too long.
 *
 *     main thread   store_hold_back --> rows in memory --> store_take_back: written with the answer
 *     held thread                            `-- after 0.25 s to 0.5 s: INSERT, COMMIT
 *
 * Writing a row once, when it is complete, costs half as much as inserting and updating it. But it
 * must be on disk soon even if the main thread is in C code that does not return or blocks in a
 * system call, so a thread writes it then. The thread commits the open transaction, if any, and
 * begins another in its place, unnoticed by the main thread; store_hold_commit prevents that where
 * rows belong together.
 *
 * The thread stays off the connection while the main thread has a statement acquired, and between
 * store_enter and store_leave.
 */
#ifndef PONDER_STORE_HELD_H
#define PONDER_STORE_HELD_H

#include "store/store.h"

/* Holds back a statement with a copy of its values. *ticket is > 0. */
StoreStatus store_hold_back(Store *s, const char *sql, const StoreValue *values, int count,
                            int64_t *ticket, StoreError *e);

/* Withdraws a statement. False: it has already been run. */
bool store_take_back(Store *s, int64_t ticket);

/* Whether the thread must not commit, before the next store_hold_back, commit or rollback. */
void store_hold_commit(Store *s, bool hold);

/* Keep the thread off the connection in between; they nest. */
void store_enter(Store *s);
void store_leave(Store *s);

/* Ends the thread. If rows are held back, rolls back an open transaction and writes them. */
void store_end_held(Store *s);

#endif
