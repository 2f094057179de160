/* open.c -- opens, publishes and closes a store; see store.h. */
#define _DEFAULT_SOURCE /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/header.h"
#include "store/held.h"
#include "store/private.h"
#include "store/store.h"

enum {
    BUSY_MS = 1000,
    BESIDE = 3,
    WAL_BYTES = 32 << 20,    /* the -wal is truncated to this after a checkpoint */
    CHECKED_BYTES = 64 << 20 /* larger files are not checked for damage at opening */
};

static const char *const beside[] = {"-wal", "-shm", "-journal"};

static StoreStatus run(Store *s, const char *sql, StoreError *e)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? STORE_OK : store_fail_sqlite(e, s->db, rc);
}

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

/* ---- checks ---- */

static StoreStatus check_version(const StoreOptions *o, int64_t application_id, int64_t version,
                                 StoreError *e)
{
    if (o->application_id >= 0 && application_id != o->application_id)
        return store_fail(e, STORE_NOT_A_LOG, "not a %s, but another SQLite database", o->kind);
    if (o->version >= 0 && version > o->version)
        return store_fail(e, STORE_NEWER,
                          "written by a newer ponder (its format is %lld, this one reads %lld)",
                          (long long)version, (long long)o->version);
    return STORE_OK;
}

/* Checking a large file takes seconds, on a slow disk minutes: there damage is found page by page,
 * as it is read. */
static bool is_large(const Store *s)
{
    struct stat file;
    return fstat(s->claim->fd, &file) == 0 && file.st_size > CHECKED_BYTES;
}

/* Checks the content including the WAL, before anything is written. */
static StoreStatus check_content(Store *s, const StoreOptions *o, StoreError *e)
{
    char application_id[32], version[32], answer[160];
    StoreStatus status = query_text(s, "PRAGMA application_id", application_id, 32, e);
    if (status == STORE_OK)
        status = query_text(s, "PRAGMA user_version", version, 32, e);
    if (status == STORE_OK)
        status = check_version(o, strtoll(application_id, NULL, 10), strtoll(version, NULL, 10), e);
    if (status != STORE_OK || !(s->writable || o->check) || is_large(s))
        return status;
    status = query_text(s, "PRAGMA quick_check(1)", answer, sizeof answer, e);
    if (status == STORE_OK && strcmp(answer, "ok") != 0) {
        const char *first = strncmp(answer, "***", 3) == 0 ? strchr(answer, '\n') : NULL;
        first = first != NULL ? first + 1 : answer; /* below "*** in database main ***" */
        status = store_fail(e, STORE_DAMAGED, "damaged: %.*s", (int)strcspn(first, "\n"), first);
    }
    return status;
}

static bool is_allowed(const char *path, int what)
{
    return faccessat(AT_FDCWD, path, what, AT_EACCESS) == 0;
}

static bool is_directory_writable(const char *real_path)
{
    char *directory =
        sqlite3_mprintf("%.*s", (int)(strrchr(real_path, '/') - real_path), real_path);
    bool writable = directory != NULL && is_allowed(*directory != '\0' ? directory : "/", W_OK);
    sqlite3_free(directory);
    return writable;
}

static StoreStatus check_permission(const char *real_path, StoreError *e)
{
    if (!is_allowed(real_path, W_OK))
        return store_fail(e, STORE_READ_ONLY, "cannot be written: %s", strerror(errno));
    if (!is_directory_writable(real_path))
        return store_fail(e, STORE_READ_ONLY, "its directory cannot be written");
    return STORE_OK;
}

/* SQLite opens -wal, -shm and -journal and creates them with the database's mode. First refuses
 * those that others may have put there, and makes private what an earlier version left readable. */
static StoreStatus check_privacy(const char *path, const char *real_path, int fd, StoreError *e)
{
    const char *refusal = private_refusal(path, fd);
    if (refusal != NULL)
        return store_fail(e, STORE_READ_ONLY, "cannot be written: it %s", refusal);
    private_tighten(real_path);
    for (int i = 0; i < BESIDE; i++) {
        char file[HEADER_PATH_SIZE];
        snprintf(file, sizeof file, "%s%s", real_path, beside[i]);
        refusal = private_beside_refusal(file);
        if (refusal != NULL)
            return store_fail(e, STORE_READ_ONLY, "cannot be written: its %s %s", beside[i],
                              refusal);
        private_tighten(file);
    }
    return STORE_OK;
}

/* ---- the connection ---- */

/* Escapes the characters that are special in a URI. */
static void put_uri(sqlite3_str *uri, const char *path)
{
    sqlite3_str_appendall(uri, "file:");
    for (; *path != '\0'; path++)
        sqlite3_str_appendf(uri, strchr("%?#", *path) ? "%%%02x" : "%c", (unsigned char)*path);
    sqlite3_str_appendall(uri, "?immutable=1");
}

/* A log that was not closed is in WAL mode, so SQLite needs a -wal and -shm even to read it. Where
 * none exist and none can be created there cannot be a writer, and `immutable` does without. */
static StoreStatus connect(Store *s, const char *real_path, StoreMode mode,
                           const FileHeader *header, StoreError *e)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE |
                (s->writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    char *uri = NULL;
    if (mode == STORE_READ && header->is_wal && !header->has_wal &&
        !is_directory_writable(real_path)) {
        sqlite3_str *text = sqlite3_str_new(NULL);
        put_uri(text, real_path);
        uri = sqlite3_str_finish(text);
        if (uri == NULL)
            return store_fail(e, STORE_MEMORY, "not enough memory");
        flags |= SQLITE_OPEN_URI;
    }
    int rc = sqlite3_open_v2(uri != NULL ? uri : real_path, &s->db, flags, NULL);
    sqlite3_free(uri);
    if (rc != SQLITE_OK)
        return store_fail_sqlite(e, s->db, rc);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, NULL);
    /* Until the file has passed the checks: see begin_wal. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* What a reader sorts or compares may be large: it goes to a file without a name. */
    return run(s,
               s->writable ? "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON"
                           : "PRAGMA temp_store=FILE; PRAGMA cell_size_check=ON; "
                             "PRAGMA query_only=ON",
               e);
}

static int count_pages(void *ud, sqlite3 *db, const char *name, int pages)
{
    Store *s = ud;
    (void)db;
    (void)name;
    s->wal_pages = pages;
    return SQLITE_OK;
}

static StoreStatus begin_wal(Store *s, StoreError *e)
{
    char answer[32];
    StoreStatus status = query_text(s, "PRAGMA journal_mode", answer, sizeof answer, e);
    if (status == STORE_OK && strcmp(answer, "wal") != 0) /* see leave_wal */
        status = run(s, "PRAGMA journal_mode=MEMORY", e);
    if (status == STORE_OK)
        status = query_text(s, "PRAGMA journal_mode=WAL", answer, sizeof answer, e);
    if (status == STORE_LOCKED && s->locked) /* in WAL mode it could read on: see leave_wal */
        return store_fail(e, status, "another process, such as a replay, is reading it");
    if (status != STORE_OK)
        return status;
    if (strcmp(answer, "wal") != 0)
        return store_fail(e, STORE_IO, "its file system has no shared memory, which SQLite needs");
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    sqlite3_wal_hook(s->db, count_pages, s); /* replaces SQLite's automatic checkpoints */
    char *sql = sqlite3_mprintf("PRAGMA synchronous=%s; PRAGMA journal_size_limit=%d; "
                                "PRAGMA secure_delete=ON",
                                s->full_sync ? "FULL" : "NORMAL", WAL_BYTES);
    if (sql == NULL)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    status = run(s, sql, e);
    sqlite3_free(sql);
    return status;
}

/* An unpublished file needs no journal, and no sync before it is published. */
static StoreStatus write_schema(Store *s, const StoreOptions *o, StoreError *e)
{
    char *sql = sqlite3_mprintf("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; BEGIN; "
                                "PRAGMA application_id=%lld; "
                                "PRAGMA user_version=%lld;\n%s\n"
                                "; COMMIT",
                                o->application_id >= 0 ? o->application_id : (int64_t)0,
                                o->version >= 0 ? o->version : (int64_t)0,
                                o->schema != NULL ? o->schema : "");
    if (sql == NULL)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    StoreStatus status = run(s, sql, e);
    sqlite3_free(sql);
    return status;
}

/* ---- opening ---- */

static StoreStatus open_claimed(Store *s, const char *path, const char *real_path,
                                const StoreOptions *o, StoreError *e)
{
    FileHeader header = {0};
    StoreStatus status = STORE_OK;
    if (o->mode != STORE_CREATE) {
        status = header_read(s->claim->fd, real_path, o->kind, &header, e);
        if (status == STORE_OK)
            status = check_version(o, header.application_id, header.version, e);
        if (status == STORE_OK && s->writable)
            status = check_permission(real_path, e);
    }
    if (status == STORE_OK && s->writable)
        status = check_privacy(path, real_path, s->claim->fd, e);
    bool create = o->mode == STORE_CREATE; /* locked, so as not to be taken for unfinished */
    if (status == STORE_OK && s->writable && (o->lock || create)) {
        status = claim_lock(s->claim, e);
        s->locked = status == STORE_OK;
    }
    if (status == STORE_OK)
        status = connect(s, real_path, o->mode, &header, e);
    if (status == STORE_OK)
        status = create ? write_schema(s, o, e) : check_content(s, o, e);
    if (status == STORE_OK && o->mode == STORE_WRITE)
        status = begin_wal(s, e);
    return status;
}

/* Opens a writing connection to a file that has passed the checks. */
static StoreStatus connect_writer(Store *s, const char *real_path, StoreError *e)
{
    StoreStatus status = check_privacy(real_path, real_path, s->claim->fd, e);
    if (status == STORE_OK)
        status = connect(s, real_path, STORE_WRITE, NULL, e);
    return status == STORE_OK ? begin_wal(s, e) : status;
}

static void finalize_statements(Store *s)
{
    sqlite3_stmt *statement;
    while ((statement = sqlite3_next_stmt(s->db, NULL)) != NULL)
        sqlite3_finalize(statement);
    memset(s->cache, 0, sizeof s->cache);
    s->acquired = 0;
}

static void disconnect(Store *s)
{
    if (s->db == NULL)
        return;
    finalize_statements(s);
    sqlite3_close(s->db);
    s->db = NULL;
}

static void remove_beside(const char *real_path)
{
    for (int i = 0; i < BESIDE; i++) {
        char path[HEADER_PATH_SIZE];
        snprintf(path, sizeof path, "%s%s", real_path, beside[i]);
        unlink(path);
    }
}

/* Removes a file whose creation failed, with its -wal, -shm and -journal. */
static void remove_file(const char *real_path)
{
    remove_beside(real_path);
    unlink(real_path);
}

/* ---- publishing ---- */

/* SQLite finds -wal and -shm by the name it opened, so the connection is closed before the file is
 * renamed and reopened after. The claim's descriptor and lock stay: they belong to the file, not to
 * its name. */

static bool is_in_use(const Store *s)
{
    for (const CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++)
        if (c->in_use)
            return true;
    return false;
}

/* Reopens the file as `path`; closes the store on failure. */
static StoreStatus rename_to(Store *s, const char *staging, const char *path, StoreError *e)
{
    StoreStatus status = STORE_OK;
    disconnect(s);
    s->staged = false;
    /* Only the owner of the staging file can create this name, so a file here is not ours. */
    struct stat existing;
    int error = lstat(path, &existing) == 0 ? EEXIST : 0;
    if (error == 0) { /* a stale -wal would be read as this file's */
        remove_beside(path);
        error = header_set_wal(s->claim->fd);
    }
    if (error == 0 && fsync(s->claim->fd) != 0)
        error = errno;
    if (error != 0)
        status = store_fail_errno(e, error == EEXIST ? "" : "cannot be read or written", error);
    else if (private_rename_new(staging, path) != 0)
        status = store_fail_errno(e, "cannot be created", errno);
    if (status != STORE_OK) {
        remove_file(staging);
    } else if ((status = connect_writer(s, path, e)) != STORE_OK) {
        disconnect(s);
        remove_file(path);
    }
    if (status != STORE_OK)
        claim_close(s->claim, s->locked);
    return status;
}

StoreStatus store_publish(Store *s, StoreError *e)
{
    if (!s->staged)
        return store_fail(e, STORE_SQL, "is already published");
    if (is_in_use(s) || !sqlite3_get_autocommit(s->db))
        return store_fail(e, STORE_SQL, "cannot be published while it is read or written");
    const char *name = sqlite3_db_filename(s->db, "main");
    int size = (int)(strlen(name) - strlen(CLAIM_STAGING));
    char *staging = sqlite3_mprintf("%s", name);
    char *path = sqlite3_mprintf("%.*s", size, name);
    StoreStatus status = staging != NULL && path != NULL
                             ? rename_to(s, staging, path, e)
                             : store_fail(e, STORE_MEMORY, "not enough memory");
    sqlite3_free(staging);
    sqlite3_free(path);
    return status;
}

/* ---- opening by name ---- */

static StoreStatus open_file(Store *s, const char *path, const StoreOptions *o, StoreError *e)
{
    bool create = o->mode == STORE_CREATE;
    StoreStatus status = claim_open(path, create, &s->claim, e);
    if (status != STORE_OK)
        return status;
    char *real_path = realpath(path, NULL);
    status = real_path == NULL ? store_fail_errno(e, "cannot be opened", errno)
                               : open_claimed(s, path, real_path, o, e);
    if (status != STORE_OK) {
        disconnect(s);
        if (create)
            remove_file(real_path != NULL ? real_path : path);
        claim_close(s->claim, s->locked);
    }
    free(real_path);
    return status;
}

static StoreStatus create_file(Store *s, const char *path, const StoreOptions *o, StoreError *e)
{
    struct stat existing;
    if (lstat(path, &existing) == 0) /* even a dangling link */
        return store_fail_errno(e, "", EEXIST);
    char *staging = sqlite3_mprintf("%s" CLAIM_STAGING, path);
    if (staging == NULL)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    StoreStatus status = open_file(s, staging, o, e);
    sqlite3_free(staging);
    s->staged = status == STORE_OK;
    if (status == STORE_OK && !o->staged)
        status = store_publish(s, e);
    if (status == STORE_OK && !o->lock) {
        claim_unlock(s->claim);
        s->locked = false;
    }
    return status;
}

StoreStatus store_open(Store *s, const char *path, const StoreOptions *o, StoreError *e)
{
    *s = (Store){.writable = o->mode != STORE_READ,
                 .full_sync = o->full_sync != 0,
                 .checkpoint_at = STORE_WAL_PAGES};
    if (sqlite3_initialize() != SQLITE_OK)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    return o->mode == STORE_CREATE ? create_file(s, path, o, e) : open_file(s, path, o, e);
}

/* ---- closing ---- */

/* Leaves a single file in rollback mode. The switch changes only the first sector, so it needs no
 * journal on disk. It also needs exclusive access: while others have the file open it stays in WAL
 * mode, and the last of them removes the -wal and -shm. */
static StoreStatus leave_wal(Store *s, StoreError *e)
{
    char answer[32];
    if (s->locked &&
        query_text(s, "PRAGMA journal_mode=MEMORY", answer, sizeof answer, e) == STORE_OK)
        return STORE_OK;
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc == SQLITE_OK || rc == SQLITE_BUSY ? STORE_OK : store_fail_sqlite(e, s->db, rc);
}

/* A reader may have created an empty -wal, or have outlived the writer. It cannot remove the files,
 * but a writing connection does when it closes last; the database does not change. */
static void remove_empty_wal(const char *real_path)
{
    sqlite3 *db = NULL;
    if (!header_beside(real_path, "-wal", -1) || header_beside(real_path, "-wal", 0))
        return;
    if (sqlite3_open_v2(real_path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK)
        sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    sqlite3_close(db);
}

StoreStatus store_close(Store *s, StoreError *e)
{
    StoreStatus status = STORE_OK;
    if (s->db == NULL)
        return STORE_OK;
    store_end_held(s);
    finalize_statements(s);
    if (!sqlite3_get_autocommit(s->db))
        run(s, "ROLLBACK", NULL);
    if (s->writable && !s->staged)
        status = leave_wal(s, e);
    char *real_path = sqlite3_mprintf("%s", sqlite3_db_filename(s->db, "main"));
    disconnect(s);
    if (s->staged && real_path != NULL)
        remove_file(real_path);
    else if (!s->writable && real_path != NULL)
        remove_empty_wal(real_path);
    sqlite3_free(real_path);
    claim_close(s->claim, s->locked);
    return status;
}
