/*
 * store.c -- statements, transactions, checkpoints.
 */
#include "store/store.h"

#include <limits.h>
#include <string.h>

/* ---- statements ---- */

static bool is_text(const CachedStatement *c, const char *sql, size_t size)
{
    return c->statement != NULL && !c->taken && c->size == size &&
           memcmp(sqlite3_sql(c->statement), sql, size) == 0;
}

/* A place in the cache: a free one, or that of the statement unused for longest; NULL if all are
 * taken. */
static CachedStatement *find_place(Store *s)
{
    CachedStatement *place = NULL;
    for (CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++) {
        if (c->statement == NULL)
            return c;
        if (!c->taken && (place == NULL || c->used < place->used))
            place = c;
    }
    return place;
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
            return store_fail(e, STORE_SQL, "there is more than one statement");
        }
    }
    if (rc == SQLITE_OK)
        return STORE_OK;
    StoreStatus status = store_fail_sqlite(e, s->db, rc);
    sqlite3_finalize(*out);
    *out = NULL;
    return status;
}

/* Else what follows in a transaction that is no more would be committed alone. */
static StoreStatus check_transaction(const Store *s, StoreError *e)
{
    if (!s->in_transaction || s->lost.status == STORE_OK)
        return STORE_OK;
    return store_fail(e, s->lost.status, "%s", s->lost.detail);
}

StoreStatus store_take(Store *s, const char *sql, size_t size, sqlite3_stmt **out, StoreError *e)
{
    if (check_transaction(s, e) != STORE_OK)
        return s->lost.status;
    for (CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++) {
        if (is_text(c, sql, size)) {
            c->taken = true;
            c->used = ++s->clock;
            *out = c->statement;
            return STORE_OK;
        }
    }
    StoreStatus status = prepare(s, sql, size, out, e);
    if (status != STORE_OK || *out == NULL)
        return status;
    CachedStatement *place = find_place(s);
    if (place != NULL && strlen(sqlite3_sql(*out)) == size) {
        sqlite3_finalize(place->statement);
        *place = (CachedStatement){*out, size, ++s->clock, true};
    }
    return STORE_OK;
}

void store_give_back(Store *s, sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    for (CachedStatement *c = s->cache; c < s->cache + STORE_CACHED; c++) {
        if (c->statement == statement) {
            sqlite3_clear_bindings(statement);
            c->taken = false;
            return;
        }
    }
    sqlite3_finalize(statement);
}

/* SQLite ends a transaction by itself when it has to: commit will say so. */
static StoreStatus note(Store *s, StoreStatus status, const StoreError *e)
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
    return note(s, store_fail_sqlite(e, s->db, rc), e);
}

StoreStatus store_script(Store *s, const char *sql, StoreError *e)
{
    if (check_transaction(s, e) != STORE_OK)
        return s->lost.status;
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return note(s, store_fail_sqlite(e, s->db, rc), e);
    store_bound_wal(s);
    return STORE_OK;
}

/* ---- transactions ---- */

static StoreStatus run(Store *s, const char *sql, StoreError *e)
{
    sqlite3_stmt *statement;
    bool row;
    StoreStatus status = store_take(s, sql, strlen(sql), &statement, e);
    if (status == STORE_OK) {
        status = store_step(s, statement, &row, e);
        store_give_back(s, statement);
    }
    return status;
}

StoreStatus store_begin(Store *s, StoreError *e)
{
    int moved = 0;
    if (s->writable && sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == 0 &&
        moved) /* what is written now would be lost without a word */
        return store_fail(e, STORE_IO, "was removed or renamed while it was open");
    StoreStatus status = run(s, s->writable ? "BEGIN IMMEDIATE" : "BEGIN", e);
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
    else
        store_bound_wal(s);
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
    if (rc != SQLITE_OK && rc != SQLITE_BUSY)
        return store_fail_sqlite(e, s->db, rc);
    *left = pages > moved ? pages - moved : 0;
    return STORE_OK;
}

void store_bound_wal(Store *s)
{
    int left;
    if (!s->writable || s->wal_pages < s->checkpoint_at || !sqlite3_get_autocommit(s->db))
        return;
    /* A reader, or a full disk, may keep pages there: then the next try is some pages later. */
    if (store_checkpoint(s, &left, NULL) == STORE_OK && left == 0)
        s->checkpoint_at = STORE_WAL_PAGES;
    else
        s->checkpoint_at = s->wal_pages + STORE_WAL_PAGES / 4;
    s->wal_pages = left;
}
