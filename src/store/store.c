/*
 * store.c -- errors, statements, transactions; see store.h.
 */
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loop/loop.h"

/* ---- errors ---- */

static const char *const CODES[] = {
    [STORE_OK] = "OK",
    [STORE_EXISTS] = "EXISTS",
    [STORE_NOT_FOUND] = "NOT_FOUND",
    [STORE_NOT_A_LOG] = "NOT_A_LOG",
    [STORE_NEWER] = "NEWER",
    [STORE_LOCKED] = "LOCKED",
    [STORE_READ_ONLY] = "READ_ONLY",
    [STORE_DAMAGED] = "DAMAGED",
    [STORE_FULL] = "FULL",
    [STORE_IO] = "IO",
    [STORE_MEMORY] = "MEMORY",
    [STORE_CONSTRAINT] = "CONSTRAINT",
    [STORE_TOO_LARGE] = "TOO_LARGE",
    [STORE_SQL] = "SQL",
};

const char *store_code(StoreStatus status)
{
    return CODES[status];
}

StoreStatus store_fail(StoreError *e, StoreStatus status, const char *format, ...)
{
    if (e != NULL) {
        va_list arguments;
        va_start(arguments, format);
        e->status = status;
        vsnprintf(e->detail, sizeof e->detail, format, arguments);
        va_end(arguments);
    }
    return status;
}

StoreStatus store_fail_errno(StoreError *e, const char *what, int error)
{
    switch (error) {
    case ENOENT: return store_fail(e, STORE_NOT_FOUND, "no such file or directory");
    case EEXIST: return store_fail(e, STORE_EXISTS, "file already exists");
    case EWOULDBLOCK: return store_fail(e, STORE_LOCKED, "another process is creating it");
    case ENOSPC: return store_fail(e, STORE_FULL, "the disk is full");
    case EDQUOT: return store_fail(e, STORE_FULL, "the disk is full (quota)");
    case ENOMEM: return store_fail(e, STORE_MEMORY, "not enough memory");
    case EROFS: return store_fail(e, STORE_READ_ONLY, "%s: %s", what, strerror(error));
    default:
        return store_fail(e, STORE_IO, "%s: %s%s", what, strerror(error),
                          loop_descriptor_hint(error));
    }
}

static int errno_of(sqlite3_file *file)
{
    int error = 0;
    if (file != NULL && file->pMethods != NULL)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
    return error;
}

/* A failed commit leaves its errno only with the file object. */
static int find_errno(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    int error = sqlite3_system_errno(db);
    if (error == 0 && sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) == 0)
        error = errno_of(file);
    if (error == 0 && sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == 0)
        error = errno_of(file);
    return error;
}

static StoreStatus fail_io(StoreError *e, sqlite3 *db, int rc)
{
    int error = find_errno(db);
    if (rc == SQLITE_IOERR_NOMEM)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    if (rc == SQLITE_CANTOPEN && (error == EACCES || error == EROFS || error == ENOENT))
        return store_fail(e, STORE_READ_ONLY, "a file beside it cannot be written: %s",
                          strerror(error));
    if (error == ENOSPC || error == EDQUOT)
        return store_fail_errno(e, "", error);
    return store_fail(e, STORE_IO, "cannot be read or written: %s%s",
                      error != 0 ? strerror(error) : sqlite3_errstr(rc),
                      loop_descriptor_hint(error));
}

StoreStatus store_fail_sqlite(StoreError *e, sqlite3 *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL: return store_fail(e, STORE_FULL, "the disk is full");
    case SQLITE_NOMEM: return store_fail(e, STORE_MEMORY, "not enough memory");
    case SQLITE_NOTADB: return store_fail(e, STORE_NOT_A_LOG, "not an SQLite database");
    case SQLITE_CORRUPT: return store_fail(e, STORE_DAMAGED, "damaged: %s", sqlite3_errstr(rc));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return store_fail(e, STORE_LOCKED, "another process is using it");
    case SQLITE_READONLY:
    case SQLITE_PERM: return store_fail(e, STORE_READ_ONLY, "cannot be written");
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR: return fail_io(e, db, rc);
    case SQLITE_CONSTRAINT: return store_fail(e, STORE_CONSTRAINT, "%s", sqlite3_errmsg(db));
    case SQLITE_TOOBIG: return store_fail(e, STORE_TOO_LARGE, "a value or a row is too large");
    default: return store_fail(e, STORE_SQL, "%s", sqlite3_errmsg(db));
    }
}

/* ---- statements ---- */

static StoreStatus prepare(Store *s, const char *sql, size_t size, sqlite3_stmt **out,
                           StoreError *e)
{
    const char *end = sql + size, *rest;
    sqlite3_stmt *second = NULL;
    *out = NULL;
    if (size >= INT_MAX)
        return store_fail(e, STORE_TOO_LARGE, "a statement of %zu bytes is too long", size);
    int rc = sqlite3_prepare_v3(s->db, sql, (int)size, SQLITE_PREPARE_PERSISTENT, out, &rest);
    if (rc == SQLITE_OK && rest < end) {
        rc = sqlite3_prepare_v3(s->db, rest, (int)(end - rest), 0, &second, NULL);
        if (second != NULL || rc == SQLITE_ERROR) {
            sqlite3_finalize(second);
            sqlite3_finalize(*out);
            *out = NULL;
            return store_fail(e, STORE_SQL, "more than one statement");
        }
    }
    if (rc == SQLITE_OK)
        return STORE_OK;
    StoreStatus status = store_fail_sqlite(e, s->db, rc);
    sqlite3_finalize(*out);
    *out = NULL;
    return status;
}

/* After SQLite has rolled a transaction back, the rest of it must not be committed alone. */
static StoreStatus check_transaction(const Store *s, StoreError *e)
{
    if (!s->in_transaction || s->lost.status == STORE_OK)
        return STORE_OK;
    return store_fail(e, s->lost.status, "%s", s->lost.detail);
}

StoreStatus store_acquire(Store *s, const char *sql, size_t size, sqlite3_stmt **out, StoreError *e)
{
    if (check_transaction(s, e) != STORE_OK)
        return s->lost.status;
    for (CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++) {
        if (c->statement != NULL && !c->in_use && c->size == size &&
            memcmp(sqlite3_sql(c->statement), sql, size) == 0) {
            c->in_use = true;
            *out = c->statement;
            return STORE_OK;
        }
    }
    StoreStatus status = prepare(s, sql, size, out, e);
    if (status != STORE_OK || *out == NULL)
        return status;
    CachedStatement *slot = &s->cache[s->next++ % STORE_CACHED]; /* of the oldest */
    if (!slot->in_use && strlen(sqlite3_sql(*out)) == size) {
        sqlite3_finalize(slot->statement);
        *slot = (CachedStatement){*out, size, true};
    }
    return STORE_OK;
}

void store_release(Store *s, sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    for (CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++) {
        if (c->statement == statement) {
            sqlite3_clear_bindings(statement);
            c->in_use = false;
            return;
        }
    }
    sqlite3_finalize(statement);
}

/* Some errors make SQLite roll the transaction back: notes that, for the following statements. */
static StoreStatus note_rollback(Store *s, StoreStatus status, const StoreError *e)
{
    if (status != STORE_OK && s->in_transaction && s->lost.status == STORE_OK &&
        sqlite3_get_autocommit(s->db))
        s->lost = *e;
    return status;
}

StoreStatus store_step(Store *s, sqlite3_stmt *statement, bool *row, StoreError *e)
{
    int rc = sqlite3_step(statement);
    *row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return STORE_OK;
    return note_rollback(s, store_fail_sqlite(e, s->db, rc), e);
}

StoreStatus store_run(Store *s, sqlite3_stmt *statement, int64_t *changes, StoreError *e)
{
    sqlite3_int64 before = sqlite3_total_changes64(s->db);
    bool row = true;
    StoreStatus status = STORE_OK;
    while (row && status == STORE_OK)
        status = store_step(s, statement, &row, e);
    *changes = sqlite3_total_changes64(s->db) - before;
    return status;
}

StoreStatus store_script(Store *s, const char *sql, StoreError *e)
{
    StoreStatus status = check_transaction(s, e);
    int rc = status == STORE_OK ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_OK;
    if (rc != SQLITE_OK)
        status = note_rollback(s, store_fail_sqlite(e, s->db, rc), e);
    return status;
}

/* ---- transactions ---- */

static StoreStatus run(Store *s, const char *sql, StoreError *e)
{
    sqlite3_stmt *statement;
    bool row;
    StoreStatus status = store_acquire(s, sql, strlen(sql), &statement, e);
    if (status == STORE_OK) {
        status = store_step(s, statement, &row, e);
        store_release(s, statement);
    }
    return status;
}

StoreStatus store_begin(Store *s, StoreError *e)
{
    int moved = 0;
    StoreStatus status;
    if (s->writable && sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == 0 &&
        moved) /* writes would be lost silently */
        status = store_fail(e, STORE_IO, "was removed or renamed while it was open");
    else
        status = run(s, s->writable ? "BEGIN IMMEDIATE" : "BEGIN", e);
    s->in_transaction = status == STORE_OK;
    s->lost.status = STORE_OK;
    return status;
}

StoreStatus store_rollback(Store *s, StoreError *e)
{
    s->in_transaction = false;
    return sqlite3_get_autocommit(s->db) ? STORE_OK : run(s, "ROLLBACK", e);
}

StoreStatus store_commit(Store *s, StoreError *e)
{
    StoreStatus status = check_transaction(s, e);
    s->in_transaction = false;
    if (status == STORE_OK)
        status = run(s, "COMMIT", e);
    if (status != STORE_OK)
        store_rollback(s, NULL);
    return status;
}
