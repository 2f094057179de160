/*
 * store.h -- a log on disk: one SQLite file, one writer, any number of readers.
 *
 *   open      checks the file before anything is written to it (header.h, open.c)
 *   create    writes FILE-new and renames it once complete, so that a kill leaves no partial log
 *             under that name
 *   write     in WAL mode: commits survive the process (with full_sync, the machine) and do not
 *             block readers; checkpoints on request, or once the WAL has STORE_WAL_PAGES
 *   close     leaves a single file in rollback mode, which can be copied, and read where nothing
 *             can be written
 */
#ifndef PONDER_STORE_STORE_H
#define PONDER_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "store/claim.h"
#include "store/failure.h"

enum { STORE_CACHED = 64 /* statements */, STORE_WAL_PAGES = 4000 };

typedef enum StoreMode { STORE_READ, STORE_WRITE, STORE_CREATE } StoreMode;

typedef struct StoreOptions {
    int mode;               /* StoreMode */
    int full_sync;          /* 1: commits survive a power failure */
    bool lock;              /* refuse other writers */
    bool check;             /* STORE_READ: look for damage at once, as writers do */
    bool staged;            /* STORE_CREATE: leave the renaming to store_publish */
    int64_t application_id; /* -1: any */
    int64_t version;        /* the greatest user_version accepted; -1: any */
    const char *kind;       /* "run log" */
    const char *schema;     /* STORE_CREATE: SQL, or NULL */
} StoreOptions;

typedef struct CachedStatement {
    sqlite3_stmt *statement;
    size_t size;        /* of its text */
    uint64_t last_used; /* Store.clock then */
    bool in_use;
} CachedStatement;

/* A parameter of a statement. */
typedef struct StoreValue {
    int type;    /* SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_NULL; SQLITE_TEXT: any bytes */
    size_t size; /* of the bytes */
    union {
        int64_t integer;
        double number;
        const char *bytes;
    } as;
} StoreValue;

typedef struct Store {
    sqlite3 *db; /* NULL: closed */
    Claim *claim;
    bool writable, locked, full_sync;
    bool staged;           /* its name still ends in CLAIM_STAGING */
    bool in_transaction;   /* store_begin was called */
    StoreError lost;       /* why SQLite has rolled that transaction back, if it has */
    int wal_pages;         /* in the WAL after the last commit */
    int checkpoint_at;     /* wal_pages for the next checkpoint */
    struct HeldRows *held; /* see held.h; NULL: none yet */
    int acquired;          /* statements in use */
    uint64_t clock;        /* counts acquisitions, for the cache */
    CachedStatement cache[STORE_CACHED];
} Store;

/* On failure the store is closed, and an existing file is unchanged. */
StoreStatus store_open(Store *s, const char *path, const StoreOptions *o, StoreError *e);

/* Renames a file that was created `staged`, once its initial content is committed. On failure the
 * store is closed and the file removed, unless a statement or transaction is open. */
StoreStatus store_publish(Store *s, StoreError *e);

/* Rolls back an open transaction, and removes a file that was not published. The store is closed
 * even on failure: then committed data is still in the -wal. */
StoreStatus store_close(Store *s, StoreError *e);

/* ---- statements ---- */

/* Prepares the one statement of the text, or takes it from the cache; *out is NULL if the text is
 * empty. It is the caller's alone until store_release. */
StoreStatus store_acquire(Store *s, const char *sql, size_t size, sqlite3_stmt **out,
                          StoreError *e);
void store_release(Store *s, sqlite3_stmt *statement);

/* Binds a parameter; returns an SQLite result code. `keep` says whether SQLite copies it. */
int store_bind(sqlite3_stmt *statement, int at, const StoreValue *v, sqlite3_destructor_type keep);

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

/* Copies WAL pages into the file without waiting for readers; *left pages remain. */
StoreStatus store_checkpoint(Store *s, int *left, StoreError *e);

/* Checkpoints if the WAL has grown too long; does nothing in a transaction. */
void store_bound_wal(Store *s);

#endif
