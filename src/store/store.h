/*
 * store.h -- a log on disk: one SQLite file, one writer, any number of readers.
 *
 *   open      checks the file, and writes the schema into an empty one, in one transaction: a file
 *             without a schema is a log with nothing in it, whenever its creation was killed
 *   write     in WAL mode: commits survive the process (with full_sync, the machine) and do not
 *             block readers
 *   close     leaves a single file in rollback mode, which can be copied, and read where nothing
 *             can be written
 */
#ifndef PONDER_STORE_STORE_H
#define PONDER_STORE_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors: codes, and messages for the user ---- */

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

/* ---- stores ---- */

enum { STORE_CACHED = 64 /* statements */ };

typedef enum StoreMode { STORE_READ, STORE_WRITE, STORE_CREATE } StoreMode;

typedef struct StoreOptions {
    int mode;               /* StoreMode */
    int full_sync;          /* 1: commits survive a power failure */
    bool lock;              /* refuse other writers */
    bool check;             /* STORE_READ: look for damage at once, as writers do */
    int64_t application_id; /* -1: any */
    int64_t version;        /* the greatest user_version accepted; -1: any */
    const char *kind;       /* "run log" */
    const char *schema;     /* SQL for an empty file; NULL: it is refused unless just created */
} StoreOptions;

typedef struct CachedStatement {
    sqlite3_stmt *statement;
    size_t size; /* of its text */
    bool in_use;
} CachedStatement;

typedef struct Claim Claim;

typedef struct Store {
    sqlite3 *db; /* NULL: closed */
    Claim *claim;
    bool writable, locked;
    bool in_transaction; /* store_begin was called */
    StoreError lost;     /* why SQLite has rolled that transaction back, if it has */
    unsigned next;       /* place in the cache of the next new statement */
    CachedStatement cache[STORE_CACHED];
} Store;

/* On failure the store is closed, and an existing file is unchanged. */
StoreStatus store_open(Store *s, const char *path, const StoreOptions *o, StoreError *e);

/* Rolls back an open transaction. The store is closed even on failure: then committed data is still
 * in the -wal. */
StoreStatus store_close(Store *s, StoreError *e);

/* Whether the file has a writer that locks it. */
StoreStatus store_in_use(const char *path, bool *used, StoreError *e);

/* ---- statements ---- */

/* Prepares the one statement of the text, or takes it from the cache; *out is NULL if the text is
 * empty. It is the caller's alone until store_release. */
StoreStatus store_acquire(Store *s, const char *sql, size_t size, sqlite3_stmt **out,
                          StoreError *e);
void store_release(Store *s, sqlite3_stmt *statement);

/* Runs a statement to its end; it inserted, updated or deleted *changes rows. */
StoreStatus store_run(Store *s, sqlite3_stmt *statement, int64_t *changes, StoreError *e);

/* *row says whether there is a row. */
StoreStatus store_step(Store *s, sqlite3_stmt *statement, bool *row, StoreError *e);

/* Runs all statements of the text; drops their results. */
StoreStatus store_script(Store *s, const char *sql, StoreError *e);

/* A commit that fails rolls back. */
StoreStatus store_begin(Store *s, StoreError *e);
StoreStatus store_commit(Store *s, StoreError *e);
StoreStatus store_rollback(Store *s, StoreError *e);

#endif
