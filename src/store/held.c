/* held.c -- see held.h. */
#include "store/held.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loop/loop.h"

#define DELAY_S 0.25 /* the age at which a row is written, and the thread's period */
#define RETRY_S 0.01 /* the thread's period while the connection is busy */

enum { FIRST_CAPACITY = 64 };

typedef struct HeldRow {
    double at; /* when it was held back */
    const char *sql;
    int count;
    StoreValue values[]; /* followed by their bytes and the statement's text */
} HeldRow;

/* A ring: the row of a ticket is at `ticket % capacity`, NULL once withdrawn or written. */
struct HeldRows {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    Store *store;
    HeldRow **rows;
    int64_t first, next, capacity; /* tickets: rows are in [first, next) */
    sqlite3_stmt *statement;       /* of the row that the thread wrote last */
    bool sleeps;                   /* until there is a row */
    bool commit_held;              /* see store_hold_commit */
    bool ends;
};

static HeldRow **slot_of(struct HeldRows *held, int64_t ticket)
{
    return &held->rows[ticket % held->capacity];
}

static void drop(HeldRow **slot)
{
    free(*slot);
    *slot = NULL;
}

/* ---- the thread ---- */

static int run_row(struct HeldRows *held, const HeldRow *row)
{
    int rc = SQLITE_OK;
    if (held->statement == NULL || strcmp(sqlite3_sql(held->statement), row->sql) != 0) {
        sqlite3_finalize(held->statement);
        rc = sqlite3_prepare_v2(held->store->db, row->sql, -1, &held->statement, NULL);
    }
    for (int i = 0; rc == SQLITE_OK && i < row->count; i++)
        rc = store_bind(held->statement, i + 1, &row->values[i], SQLITE_STATIC);
    if (rc == SQLITE_OK)
        sqlite3_step(held->statement);
    if (held->statement == NULL)
        return rc;
    int stepped = sqlite3_reset(held->statement);
    sqlite3_clear_bindings(held->statement);
    return rc != SQLITE_OK ? rc : stepped;
}

static int run_rows(struct HeldRows *held, double before)
{
    int rc = SQLITE_OK;
    for (int64_t i = held->first; rc == SQLITE_OK && i < held->next; i++) {
        const HeldRow *row = *slot_of(held, i);
        if (row != NULL && row->at <= before)
            rc = run_row(held, row);
    }
    return rc;
}

static int execute(struct HeldRows *held, const char *sql)
{
    return sqlite3_exec(held->store->db, sql, NULL, NULL, NULL);
}

/* Writes rows held back before that time. Rows that cannot be written stay: the main thread gets
 * the error when it writes them. If its own transaction is lost, its next statement fails. */
static void write_rows(struct HeldRows *held, double before)
{
    Store *s = held->store;
    bool inside = !sqlite3_get_autocommit(s->db);
    int rc = execute(held, "SAVEPOINT held"); /* begins a transaction, if there is none */
    if (rc == SQLITE_OK)
        rc = run_rows(held, before);
    if (rc == SQLITE_OK)
        rc = execute(held, "COMMIT");
    bool written = rc == SQLITE_OK;
    if (written && inside)
        rc = execute(held, "BEGIN IMMEDIATE");
    if (inside && rc != SQLITE_OK && sqlite3_get_autocommit(s->db))
        store_fail_sqlite(&s->lost, s->db, rc);
    else if (!written)
        execute(held, "ROLLBACK TO held; RELEASE held");
    for (int64_t i = held->first; written && i < held->next; i++)
        if (*slot_of(held, i) != NULL && (*slot_of(held, i))->at <= before)
            drop(slot_of(held, i));
}

/* Rows are in order of age. */
static const HeldRow *oldest(struct HeldRows *held)
{
    while (held->first < held->next && *slot_of(held, held->first) == NULL)
        held->first++;
    return held->first < held->next ? *slot_of(held, held->first) : NULL;
}

static void wait_for(struct HeldRows *held, double seconds)
{
    double at = loop_now() + seconds;
    struct timespec until = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - floor(at)) * 1e9)};
    pthread_cond_timedwait(&held->changed, &held->mutex, &until);
}

static void *run_thread(void *arg)
{
    struct HeldRows *held = arg;
    pthread_mutex_lock(&held->mutex);
    while (!held->ends) {
        const HeldRow *row = oldest(held);
        double before = loop_now() - DELAY_S;
        held->sleeps = row == NULL;
        bool is_late = row != NULL && row->at <= before;
        bool is_busy = held->commit_held || held->store->acquired > 0;
        if (is_late && !is_busy)
            write_rows(held, before);
        if (row == NULL)
            pthread_cond_wait(&held->changed, &held->mutex);
        else
            wait_for(held, is_late && is_busy ? RETRY_S : DELAY_S);
    }
    pthread_mutex_unlock(&held->mutex);
    return NULL;
}

/* ---- beginning and ending ---- */

static int start_thread(struct HeldRows *held)
{
    sigset_t all, before;
    pthread_mutexattr_t kind;
    pthread_condattr_t clock;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&held->mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&held->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&held->thread, NULL, run_thread, held);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void free_held(struct HeldRows *held)
{
    for (int64_t i = held->first; i < held->next; i++)
        drop(slot_of(held, i));
    sqlite3_finalize(held->statement);
    pthread_cond_destroy(&held->changed);
    pthread_mutex_destroy(&held->mutex);
    free(held->rows);
    free(held);
}

static StoreStatus begin_held(Store *s, StoreError *e)
{
    struct HeldRows *held = calloc(1, sizeof *held);
    if (held == NULL)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    held->store = s;
    held->first = held->next = 1;
    int error = start_thread(held);
    if (error != 0) {
        free_held(held);
        return store_fail_errno(e, "cannot start a thread", error);
    }
    s->held = held;
    return STORE_OK;
}

void store_end_held(Store *s)
{
    struct HeldRows *held = s->held;
    if (held == NULL)
        return;
    s->held = NULL;
    pthread_mutex_lock(&held->mutex);
    held->ends = true;
    pthread_cond_signal(&held->changed);
    pthread_mutex_unlock(&held->mutex);
    pthread_join(held->thread, NULL);
    if (oldest(held) != NULL) {
        store_rollback(s, NULL);
        write_rows(held, INFINITY);
    }
    free_held(held);
}

/* ---- rows ---- */

static bool grow(struct HeldRows *held)
{
    int64_t capacity = held->capacity == 0 ? FIRST_CAPACITY : 2 * held->capacity;
    HeldRow **rows = calloc((size_t)capacity, sizeof *rows);
    if (rows == NULL)
        return false;
    for (int64_t i = held->first; i < held->next; i++)
        rows[i % capacity] = *slot_of(held, i);
    free(held->rows);
    held->rows = rows;
    held->capacity = capacity;
    return true;
}

static HeldRow *copy_row(const char *sql, const StoreValue *values, int count)
{
    size_t size = sizeof(HeldRow) + (size_t)count * sizeof *values + strlen(sql) + 1;
    for (int i = 0; i < count; i++)
        size += values[i].size;
    HeldRow *row = malloc(size);
    if (row == NULL)
        return NULL;
    char *end = (char *)&row->values[count];
    *row = (HeldRow){.at = loop_now(), .count = count};
    for (int i = 0; i < count; i++) {
        row->values[i] = values[i];
        if (values[i].type != SQLITE_TEXT)
            continue;
        row->values[i].as.bytes = memcpy(end, values[i].as.bytes, values[i].size);
        end += values[i].size;
    }
    row->sql = strcpy(end, sql);
    return row;
}

static StoreStatus add_row(struct HeldRows *held, HeldRow *row, int64_t *ticket)
{
    pthread_mutex_lock(&held->mutex);
    oldest(held);
    bool fits = held->next - held->first < held->capacity || grow(held);
    if (fits) {
        *ticket = held->next++;
        *slot_of(held, *ticket) = row;
    }
    held->commit_held = false;
    if (held->sleeps)
        pthread_cond_signal(&held->changed);
    pthread_mutex_unlock(&held->mutex);
    return fits ? STORE_OK : STORE_MEMORY;
}

StoreStatus store_hold_back(Store *s, const char *sql, const StoreValue *values, int count,
                            int64_t *ticket, StoreError *e)
{
    if (s->held == NULL && begin_held(s, e) != STORE_OK)
        return e->status;
    HeldRow *row = copy_row(sql, values, count);
    if (row != NULL && add_row(s->held, row, ticket) == STORE_OK)
        return STORE_OK;
    free(row);
    return store_fail(e, STORE_MEMORY, "not enough memory");
}

bool store_take_back(Store *s, int64_t ticket)
{
    struct HeldRows *held = s->held;
    if (held == NULL)
        return false;
    pthread_mutex_lock(&held->mutex);
    bool waits = ticket >= held->first && ticket < held->next && *slot_of(held, ticket) != NULL;
    if (waits)
        drop(slot_of(held, ticket));
    pthread_mutex_unlock(&held->mutex);
    return waits;
}

void store_enter(Store *s)
{
    if (s->held != NULL)
        pthread_mutex_lock(&s->held->mutex);
}

void store_leave(Store *s)
{
    if (s->held != NULL)
        pthread_mutex_unlock(&s->held->mutex);
}

void store_hold_commit(Store *s, bool hold)
{
    store_enter(s);
    if (s->held != NULL)
        s->held->commit_held = hold;
    store_leave(s);
}
