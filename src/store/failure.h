/* failure.h -- errors of a store: codes, and messages for the user. */
#ifndef PONDER_STORE_FAILURE_H
#define PONDER_STORE_FAILURE_H

#include <sqlite3.h>
#include <stdbool.h>

typedef enum StoreStatus {
    STORE_OK,
    STORE_EXISTS,
    STORE_NOT_FOUND,
    STORE_NOT_A_LOG, /* another kind of file */
    STORE_NEWER,     /* written by a later version */
    STORE_LOCKED,
    STORE_READ_ONLY,
    STORE_DAMAGED,
    STORE_FULL,
    STORE_IO,
    STORE_MEMORY,
    STORE_CONSTRAINT, /* of the schema, violated */
    STORE_TOO_LARGE,  /* a value or a row beyond SQLite's limits */
    STORE_SQL         /* an invalid statement or parameter */
} StoreStatus;

typedef struct StoreError {
    StoreStatus status;
    char detail[256]; /* follows "FILE: " */
} StoreError;

/* "LOCKED" for STORE_LOCKED. */
const char *store_code(StoreStatus status);

/* Fills in the error, unless it is NULL, and returns the status. */
__attribute__((format(printf, 3, 4))) StoreStatus store_fail(StoreError *e, StoreStatus status,
                                                             const char *format, ...);

/* For a system call that failed with this errno: "cannot be read: Permission denied". */
StoreStatus store_fail_errno(StoreError *e, const char *what, int error);

/* For an SQLite result code. */
StoreStatus store_fail_sqlite(StoreError *e, sqlite3 *db, int rc);

#endif
