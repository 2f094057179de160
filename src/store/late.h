/*
 * late.h -- rows that are held back, and written all the same when that takes long.
 *
 *     main thread   store_hold_back --> rows in memory --> store_take_back: written with the answer
 *     late thread                            `-- after 0.25 s to 0.5 s: INSERT, COMMIT
 *
 * A row that is written once, when it is whole, costs half as much as one that is written and
 * changed. But what it tells must be on disk soon, whatever the main thread does meanwhile: it may
 * run C code that does not return, or wait in a system call. So a thread looks after such rows. It
 * commits the transaction that is open, if there is one, and begins the next in its place: the main
 * thread does not notice. Where its rows belong together it says so: store_hold_commit.
 *
 * The two take turns with the connection: the thread keeps away while the main thread has taken a
 * statement, and within store_enter.
 */
#ifndef PONDER_STORE_LATE_H
#define PONDER_STORE_LATE_H

#include "store/store.h"

/* Keeps a statement with its values, all of them copied. Its ticket is > 0. */
StoreStatus store_hold_back(Store *s, const char *sql, const StoreValue *values, int count,
                            int64_t *ticket, StoreError *e);

/* Whether the statement has not been run; then it never will be. */
bool store_take_back(Store *s, int64_t ticket);

/* What is written from here on is not committed by itself before the next store_hold_back, commit
 * or rollback. */
void store_hold_commit(Store *s);
void store_release_commit(Store *s);

/* Around what the thread must not come between. */
void store_enter(Store *s);
void store_leave(Store *s);

/* Ends the thread. A transaction that is open is rolled back, and what is held back is written. */
void store_end_late(Store *s);

#endif
