/* failure.c -- see failure.h. */
#include "store/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "loop/loop.h"

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
