/*
 * store.c -- statements, transactions, checkpoints; see store.h.
 */
#include "store/store.h"

#include <limits.h>
#include <string.h>

/* ---- statements ---- */

static bool is_text(const CachedStatement *c, const char *sql, size_t size)
{
    return c->statement != NULL && !c->in_use && c->size == size &&
           memcmp(sqlite3_sql(c->statement), sql, size) == 0;
}

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
        if (is_text(c, sql, size)) {
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

/* ---- checkpoints ---- */

StoreStatus store_checkpoint(Store *s, int *left, StoreError *e)
{
    int pages = 0, moved = 0;
    *left = 0;
    if (!s->writable)
        return store_fail(e, STORE_READ_ONLY, "it is open for reading");
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
    StoreStatus status =
        rc == SQLITE_OK || rc == SQLITE_BUSY ? STORE_OK : store_fail_sqlite(e, s->db, rc);
    if (status != STORE_OK)
        return status;
    *left = pages > moved ? pages - moved : 0;
    return STORE_OK;
}
