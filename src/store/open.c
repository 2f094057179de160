/* open.c -- opens and closes a store; see store.h. */
#define _GNU_SOURCE /* realpath, flock */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/private.h"
#include "store/store.h"

enum {
    BUSY_MS = 1000,
    WAL_PAGES = 4000,        /* after which a commit copies them into the file */
    WAL_BYTES = 32 << 20,    /* the -wal is truncated to this after that */
    CHECKED_BYTES = 64 << 20 /* larger files are not checked for damage at opening */
};

enum { FILES = 4, NAME_SIZE = PATH_MAX + 16 };

static const char *const suffixes[FILES] = {"", "-wal", "-shm", "-journal"};

/* The name of one of a database's files, until the next call. */
static const char *file_name(const char *path, int file)
{
    static char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s%s", path, suffixes[file]);
    return name;
}

/* ---- claims: a descriptor and a lock on a store's file, beside SQLite's own ----
 *
 * SQLite's locks are POSIX locks, which a process loses when it closes any descriptor of the file.
 * So there is one claim for each file and process, shared by all stores of that file; its
 * descriptor is closed after the last of them.
 *
 * The claim's lock makes one process the only writer. It is an flock, independent of POSIX locks,
 * and ends with the process. Readers do not take it.
 */

struct Claim {
    SLIST_ENTRY(Claim) link;
    dev_t device;
    ino_t inode;
    int fd;
    int stores;  /* of this process that have the file open */
    bool locked; /* one of them is the writer */
};

static SLIST_HEAD(, Claim) claims; /* of this process */

/* Opens a regular file; with `create` it must not exist, and becomes an empty one of our own. */
static StoreStatus claim_open(const char *path, bool create, Claim **out, StoreError *e)
{
    struct stat file;
    int fd = -1;
    if (create && (fd = private_create(path)) < 0)
        return store_fail_errno(e, "cannot be created", errno);
    if (stat(path, &file) != 0) /* before opening, since opening a pipe may block */
        return store_fail_errno(e, "cannot be read", errno);
    if (!S_ISREG(file.st_mode))
        return store_fail(e, STORE_NOT_A_LOG, "is %s",
                          S_ISDIR(file.st_mode) ? "a directory" : "not a regular file");
    Claim *claim;
    SLIST_FOREACH(claim, &claims, link)
    if (claim->device == file.st_dev && claim->inode == file.st_ino)
        break;
    if (claim == NULL) {
        if (fd < 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            return store_fail_errno(e, "cannot be read", errno);
        claim = calloc(1, sizeof *claim);
        if (claim == NULL || fstat(fd, &file) != 0) {
            free(claim);
            close(fd);
            return store_fail(e, STORE_MEMORY, "not enough memory");
        }
        claim->device = file.st_dev;
        claim->inode = file.st_ino;
        claim->fd = fd;
        SLIST_INSERT_HEAD(&claims, claim, link);
    }
    claim->stores++;
    *out = claim;
    return STORE_OK;
}

/* Makes the caller the only writer; STORE_LOCKED if there is another, in any process. */
static StoreStatus claim_lock(Claim *claim, StoreError *e)
{
    if (claim->locked)
        return store_fail(e, STORE_LOCKED, "this process is already writing it");
    if (flock(claim->fd, LOCK_EX | LOCK_NB) == 0) {
        claim->locked = true;
        return STORE_OK;
    }
    if (errno == EWOULDBLOCK)
        return store_fail(e, STORE_LOCKED, "another run is writing it");
    return store_fail_errno(e, "cannot be locked", errno);
}

/* Releases the claim, and the lock if `locked`. Call it after SQLite has closed the file. */
static void claim_close(Claim *claim, bool locked)
{
    if (locked) {
        flock(claim->fd, LOCK_UN);
        claim->locked = false;
    }
    if (--claim->stores == 0) {
        SLIST_REMOVE(&claims, claim, Claim, link);
        close(claim->fd);
        free(claim);
    }
}

StoreStatus store_in_use(const char *path, bool *used, StoreError *e)
{
    Claim *claim;
    StoreStatus status = claim_open(path, false, &claim, e);
    if (status != STORE_OK)
        return status;
    status = claim_lock(claim, e);
    claim_close(claim, status == STORE_OK);
    *used = status == STORE_LOCKED;
    return *used ? STORE_OK : status;
}

/* ---- queries ---- */

/* Copies the first column of the first row as text. */
static StoreStatus query_text(Store *s, const char *sql, char *answer, size_t size, StoreError *e)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL);
    answer[0] = '\0';
    if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        snprintf(answer, size, "%s", text != NULL ? text : "");
        rc = SQLITE_OK;
    }
    StoreStatus status =
        rc == SQLITE_OK || rc == SQLITE_DONE ? STORE_OK : store_fail_sqlite(e, s->db, rc);
    sqlite3_finalize(statement);
    return status;
}

static StoreStatus query_integer(Store *s, const char *sql, int64_t *answer, StoreError *e)
{
    char text[32];
    StoreStatus status = query_text(s, sql, text, sizeof text, e);
    *answer = strtoll(text, NULL, 10);
    return status;
}

/* ---- checks ---- */

/* SQLite needs the directory for -wal, -shm and -journal. Refuses files that others may have put
 * there. */
static StoreStatus check_writable(const char *path, const char *real_path, int fd, StoreError *e)
{
    char directory[NAME_SIZE];
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(real_path, '/') - real_path) + 1,
             real_path);
    if (faccessat(AT_FDCWD, real_path, W_OK, AT_EACCESS) != 0)
        return store_fail(e, STORE_READ_ONLY, "cannot be written: %s", strerror(errno));
    if (faccessat(AT_FDCWD, directory, W_OK, AT_EACCESS) != 0)
        return store_fail(e, STORE_READ_ONLY, "its directory cannot be written");
    for (int i = 0; i < FILES; i++) {
        const char *refusal =
            i == 0 ? private_refusal(path, fd) : private_refusal(file_name(real_path, i), -1);
        if (refusal != NULL)
            return store_fail(e, STORE_READ_ONLY, "cannot be written: it%s%s %s", i > 0 ? "s " : "",
                              suffixes[i], refusal);
    }
    return STORE_OK;
}

/* Whether the database is of this kind; *empty: nothing has been written to it. */
static StoreStatus check_kind(Store *s, const StoreOptions *o, bool *empty, StoreError *e)
{
    int64_t application_id, version, tables;
    StoreStatus status = query_integer(s, "PRAGMA application_id", &application_id, e);
    if (status == STORE_OK)
        status = query_integer(s, "PRAGMA user_version", &version, e);
    if (status == STORE_OK)
        status = query_integer(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
    if (status == STORE_NOT_A_LOG)
        return store_fail(e, status, "not a %s", o->kind);
    if (status != STORE_OK)
        return status;
    *empty = application_id == 0 && version == 0 && tables == 0;
    if (*empty && o->schema == NULL && o->mode != STORE_CREATE)
        return store_fail(e, STORE_NOT_A_LOG, "not a %s: it is empty", o->kind);
    if (!*empty && o->application_id >= 0 && application_id != o->application_id)
        return store_fail(e, STORE_NOT_A_LOG, "not a %s, but another SQLite database", o->kind);
    if (o->version >= 0 && version > o->version)
        return store_fail(e, STORE_NEWER,
                          "written by a newer ponder (its format is %lld, this one reads %lld)",
                          (long long)version, (long long)o->version);
    return STORE_OK;
}

/* An aborted checkpoint leaves a file that is too short without its -wal. */
static StoreStatus check_size(Store *s, StoreError *e)
{
    char mode[32];
    int64_t pages = 0, size = 0;
    struct stat file = {0};
    StoreStatus status = query_text(s, "PRAGMA journal_mode", mode, sizeof mode, e);
    if (status == STORE_OK)
        status = query_integer(s, "PRAGMA page_count", &pages, e);
    if (status == STORE_OK)
        status = query_integer(s, "PRAGMA page_size", &size, e);
    if (status == STORE_OK && strcmp(mode, "wal") != 0 && fstat(s->claim->fd, &file) == 0 &&
        file.st_size < pages * size)
        return store_fail(e, STORE_DAMAGED, "damaged: truncated to %lld of %lld bytes",
                          (long long)file.st_size, (long long)(pages * size));
    return status;
}

/* Checking a large file takes seconds, on a slow disk minutes: there damage is found page by page,
 * as it is read. */
static StoreStatus check_content(Store *s, StoreError *e)
{
    char answer[160];
    struct stat file;
    if (fstat(s->claim->fd, &file) == 0 && file.st_size > CHECKED_BYTES)
        return STORE_OK;
    StoreStatus status = query_text(s, "PRAGMA quick_check(1)", answer, sizeof answer, e);
    if (status == STORE_OK && strcmp(answer, "ok") != 0) {
        const char *first = strncmp(answer, "***", 3) == 0 ? strchr(answer, '\n') : NULL;
        first = first != NULL ? first + 1 : answer; /* below "*** in database main ***" */
        status = store_fail(e, STORE_DAMAGED, "damaged: %.*s", (int)strcspn(first, "\n"), first);
    }
    return status;
}

/* ---- opening ---- */

static StoreStatus connect(Store *s, const char *path, StoreError *e)
{
    int rc =
        sqlite3_open_v2(path, &s->db,
                        SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                            (s->writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY),
                        NULL);
    if (rc != SQLITE_OK)
        return store_fail_sqlite(e, s->db, rc);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); /* until begin_wal */
    /* What a reader sorts or compares may be large: it goes to a file without a name. */
    return store_script(s,
                        s->writable ? "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON"
                                    : "PRAGMA temp_store=FILE; PRAGMA cell_size_check=ON; "
                                      "PRAGMA query_only=ON",
                        e);
}

static StoreStatus begin_wal(Store *s, bool full_sync, StoreError *e)
{
    char answer[32], sql[200];
    StoreStatus status = query_text(s, "PRAGMA journal_mode", answer, sizeof answer, e);
    if (status == STORE_OK && strcmp(answer, "wal") != 0) /* see leave_wal */
        status = store_script(s, "PRAGMA journal_mode=MEMORY", e);
    if (status == STORE_OK)
        status = query_text(s, "PRAGMA journal_mode=WAL", answer, sizeof answer, e);
    if (status == STORE_LOCKED && s->locked) /* in WAL mode it could read on: see leave_wal */
        return store_fail(e, status, "another process, such as a replay, is reading it");
    if (status != STORE_OK)
        return status;
    if (strcmp(answer, "wal") != 0)
        return store_fail(e, STORE_IO, "its file system has no shared memory, which SQLite needs");
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    snprintf(sql, sizeof sql,
             "PRAGMA synchronous=%s; PRAGMA journal_size_limit=%d; PRAGMA wal_autocheckpoint=%d; "
             "PRAGMA secure_delete=ON",
             full_sync ? "FULL" : "NORMAL", WAL_BYTES, WAL_PAGES);
    return store_script(s, sql, e);
}

/* Makes an empty database one of this kind, unless another process has just done so. */
static StoreStatus write_schema(Store *s, const StoreOptions *o, StoreError *e)
{
    bool empty;
    StoreStatus status = store_script(s, "BEGIN IMMEDIATE", e);
    if (status == STORE_OK)
        status = check_kind(s, o, &empty, e);
    if (status != STORE_OK || !empty) {
        store_script(s, "ROLLBACK", NULL);
        return status;
    }
    char *sql = sqlite3_mprintf(
        "PRAGMA application_id=%lld; PRAGMA user_version=%lld;\n%s\n; COMMIT",
        o->application_id >= 0 ? o->application_id : (int64_t)0,
        o->version >= 0 ? o->version : (int64_t)0, o->schema != NULL ? o->schema : "");
    status =
        sql != NULL ? store_script(s, sql, e) : store_fail(e, STORE_MEMORY, "not enough memory");
    sqlite3_free(sql);
    return status;
}

static StoreStatus open_claimed(Store *s, const char *path, const StoreOptions *o, StoreError *e)
{
    bool empty = false;
    StoreStatus status = STORE_OK;
    char real_path[PATH_MAX];
    if (realpath(path, real_path) == NULL)
        return store_fail_errno(e, "cannot be opened", errno);
    if (s->writable)
        status = check_writable(path, real_path, s->claim->fd, e);
    if (status == STORE_OK && s->writable && o->lock) {
        status = claim_lock(s->claim, e);
        s->locked = status == STORE_OK;
    }
    if (status == STORE_OK)
        status = connect(s, real_path, e);
    if (status == STORE_OK)
        status = store_script(s, "BEGIN", e); /* one view, even if another writes the schema */
    if (status == STORE_OK) {
        status = check_kind(s, o, &empty, e);
        if (status == STORE_OK)
            status = check_size(s, e);
        store_script(s, "ROLLBACK", NULL);
    }
    if (status == STORE_OK && (s->writable || o->check))
        status = check_content(s, e);
    if (status == STORE_OK && s->writable) {
        for (int i = 0; i < FILES; i++) /* an earlier version left them readable */
            private_tighten(file_name(real_path, i));
        status = begin_wal(s, o->full_sync != 0, e);
    }
    bool was_writable = s->writable;
    if (status == STORE_OK && empty && !was_writable) { /* present it as one that has its tables */
        sqlite3_close(s->db);
        s->writable = true;
        status = connect(s, ":memory:", e);
    }
    if (status == STORE_OK && empty)
        status = write_schema(s, o, e);
    s->writable = was_writable;
    return status;
}

static void disconnect(Store *s)
{
    sqlite3_stmt *statement;
    while (s->db != NULL && (statement = sqlite3_next_stmt(s->db, NULL)) != NULL)
        sqlite3_finalize(statement);
    sqlite3_close(s->db);
    s->db = NULL;
    memset(s->cache, 0, sizeof s->cache);
}

StoreStatus store_open(Store *s, const char *path, const StoreOptions *o, StoreError *e)
{
    *s = (Store){.writable = o->mode != STORE_READ};
    if (sqlite3_initialize() != SQLITE_OK)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    StoreStatus status = claim_open(path, o->mode == STORE_CREATE, &s->claim, e);
    if (status != STORE_OK)
        return status;
    status = open_claimed(s, path, o, e);
    if (status == STORE_OK)
        return STORE_OK;
    disconnect(s);
    if (o->mode == STORE_CREATE && s->locked) /* else others may have opened it */
        for (int i = 0; i < FILES; i++)
            unlink(file_name(path, i));
    claim_close(s->claim, s->locked);
    return status;
}

/* ---- closing ---- */

/* Leaves a single file in rollback mode. The switch changes only the first sector, so it needs no
 * journal on disk, which would lock readers out if the process were killed. It needs exclusive
 * access: while others have the file open it stays in WAL mode. */
static StoreStatus leave_wal(Store *s, StoreError *e)
{
    char answer[32];
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY)
        return store_fail_sqlite(e, s->db, rc);
    if (s->locked)
        query_text(s, "PRAGMA journal_mode=MEMORY", answer, sizeof answer, NULL);
    return STORE_OK;
}

/* A reader that outlives the writer cannot remove the empty -wal, but a writing connection that
 * closes last does. */
static void remove_empty_wal(const char *real_path)
{
    struct stat file;
    sqlite3 *db = NULL;
    if (stat(file_name(real_path, 1), &file) != 0 || file.st_size > 0)
        return;
    if (sqlite3_open_v2(real_path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK)
        sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    sqlite3_close(db);
}

StoreStatus store_close(Store *s, StoreError *e)
{
    if (s->db == NULL)
        return STORE_OK;
    char real_path[PATH_MAX];
    snprintf(real_path, sizeof real_path, "%s", sqlite3_db_filename(s->db, "main"));
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(s->db, statement)) != NULL)
        sqlite3_reset(statement);
    store_rollback(s, NULL);
    StoreStatus status = s->writable ? leave_wal(s, e) : STORE_OK;
    disconnect(s);
    if (!s->writable && *real_path != '\0')
        remove_empty_wal(real_path);
    claim_close(s->claim, s->locked);
    return status;
}
