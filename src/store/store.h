/*
 * store.h -- a log on disk: one SQLite file, one writer, any number of readers.
 *
 *   open      looks at the file before anything is written to it (header.h, open.c)
 *   create    makes FILE-new and gives it its name when it is whole: whenever the process is
 * killed, what has the name of a log is one (publish.c) write     in WAL mode, so that what is
 * committed outlives the process (with full_sync: the machine) while readers look on; checkpoints
 * are made when asked for, or when the WAL has grown to WAL_PAGES close     leaves a single file,
 * in rollback mode: it can be copied, and read where nothing can be written
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
    StoreMode mode;
    bool full_sync;         /* what is committed outlives a loss of power */
    bool lock;              /* one writer */
    bool make_directories;  /* STORE_CREATE: those above it that are missing */
    bool check;             /* STORE_READ: look for damage at once, as before writing */
    bool staged;            /* STORE_CREATE: it gets its name at store_publish, not at once */
    int64_t application_id; /* -1: any */
    int64_t version;        /* the greatest user_version that is read; -1: any */
    const char *kind;       /* "run log" */
    const char *schema;     /* STORE_CREATE: SQL, or NULL */
} StoreOptions;

typedef struct CachedStatement {
    sqlite3_stmt *statement;
    size_t size; /* of its text */
    uint64_t used;
    bool taken;
} CachedStatement;

/* What a statement is given. */
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
    long process;
    bool writable, locked, full_sync;
    bool staged;         /* its name still has CLAIM_STAGING behind it */
    bool in_transaction; /* store_begin was called */
    StoreError lost;     /* why SQLite has rolled that transaction back, if it has */
    int wal_pages;       /* in the WAL after the last commit */
    int checkpoint_at;   /* pages */
    struct Late *late;   /* see late.h; NULL: there was none yet */
    int taken;           /* statements that are in use */
    uint64_t clock;
    CachedStatement cache[STORE_CACHED];
} Store;

/* On failure the store is closed, and a file that is not new is as it was. */
StoreStatus store_open(Store *s, const char *path, const StoreOptions *o, StoreError *e);

/* Gives a file that was created `staged` its name, once what it is to begin with is committed. If
 * this fails the store is closed, and the file removed, unless a statement is in use. */
StoreStatus store_publish(Store *s, StoreError *e);

/* Rolls back a transaction that is open. A file that was not published is removed. The store is
 * closed even if this fails: then what is committed is still in the -wal. After a fork, in the
 * child, does nothing at all. */
StoreStatus store_close(Store *s, StoreError *e);

/* Whether this process opened it, rather than the one that it was forked from. */
bool store_is_ours(const Store *s);

/* Finalizes all statements and closes SQLite's part. */
void store_disconnect(Store *s);

/* Removes a file whose creation failed, and what is beside it. */
void store_remove(const char *real_path);
void store_remove_beside(const char *real_path);

/* Opens SQLite's part of a file that nobody refuses any more, ready to be written. */
StoreStatus store_connect_writer(Store *s, const char *real_path, StoreError *e);

/* A statement of this text, alone in it, ready to be bound; *out is NULL if the text has none. Not
 * given to anyone else until store_give_back. */
StoreStatus store_take(Store *s, const char *sql, size_t size, sqlite3_stmt **out, StoreError *e);
void store_give_back(Store *s, sqlite3_stmt *statement);

/* Gives a statement a value; returns a result code of SQLite's. `keep`: whether SQLite copies it.
 */
int store_bind(sqlite3_stmt *statement, int at, const StoreValue *v, sqlite3_destructor_type keep);

/* Runs a statement to its end: *changes rows were inserted, updated or deleted. */
StoreStatus store_run(Store *s, sqlite3_stmt *statement, int64_t *changes, StoreError *e);

/* *row says whether there is a row. */
StoreStatus store_step(Store *s, sqlite3_stmt *statement, bool *row, StoreError *e);

/* Runs all statements of the text; what they return is dropped. */
StoreStatus store_script(Store *s, const char *sql, StoreError *e);

/* A commit that fails has rolled back. */
StoreStatus store_begin(Store *s, StoreError *e);
StoreStatus store_commit(Store *s, StoreError *e);
StoreStatus store_rollback(Store *s, StoreError *e);

/* Moves what it can from the WAL into the file without waiting for readers; *left pages stay. */
StoreStatus store_checkpoint(Store *s, int *left, StoreError *e);

/* After a statement outside of a transaction: checkpoints if the WAL has grown too long. */
void store_bound_wal(Store *s);

#endif
