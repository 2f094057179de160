/*
 * late.c -- see late.h.
 */
#include "store/late.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loop/loop.h"

#define LATE_S 0.25 /* how old a row is before it is written; and the time between two looks */
#define SOON_S 0.01 /* where a look came between rows that belong together */

enum { FIRST_CAPACITY = 64 };

typedef struct LateRow {
    double at; /* when it was held back */
    const char *sql;
    int count;
    StoreValue values[]; /* then their bytes, and the statement's text */
} LateRow;

/* A ring: the row of a ticket is at `ticket % capacity`, NULL once it was taken back or written. */
struct Late {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    Store *store;
    LateRow **rows;
    int64_t first, next, capacity; /* tickets of the rows there are */
    sqlite3_stmt *statement;       /* the thread's, of the last row */
    bool sleeps;                   /* until there is a row */
    bool held;                     /* see store_hold_commit */
    bool ends;
};

static LateRow **place_of(struct Late *late, int64_t ticket)
{
    return &late->rows[ticket % late->capacity];
}

static void drop(LateRow **place)
{
    free(*place);
    *place = NULL;
}

/* ---- the thread ---- */

static int run_row(struct Late *late, const LateRow *row)
{
    int rc = SQLITE_OK;
    if (late->statement == NULL || strcmp(sqlite3_sql(late->statement), row->sql) != 0) {
        sqlite3_finalize(late->statement);
        rc = sqlite3_prepare_v2(late->store->db, row->sql, -1, &late->statement, NULL);
    }
    for (int i = 0; rc == SQLITE_OK && i < row->count; i++)
        rc = store_bind(late->statement, i + 1, &row->values[i], SQLITE_STATIC);
    if (rc == SQLITE_OK)
        sqlite3_step(late->statement);
    if (late->statement == NULL)
        return rc;
    int stepped = sqlite3_reset(late->statement);
    sqlite3_clear_bindings(late->statement);
    return rc != SQLITE_OK ? rc : stepped;
}

static int run_rows(struct Late *late, double before)
{
    int rc = SQLITE_OK;
    for (int64_t i = late->first; rc == SQLITE_OK && i < late->next; i++) {
        const LateRow *row = *place_of(late, i);
        if (row != NULL && row->at <= before)
            rc = run_row(late, row);
    }
    return rc;
}

static int execute(struct Late *late, const char *sql)
{
    return sqlite3_exec(late->store->db, sql, NULL, NULL, NULL);
}

/* Writes what is late. Rows that cannot be written stay: the main thread will hear why when it
 * writes them itself. It hears at once of a transaction of its own that is lost. */
static void write_rows(struct Late *late, double before)
{
    Store *s = late->store;
    bool inside = !sqlite3_get_autocommit(s->db);
    int rc = execute(late, "SAVEPOINT late"); /* begins a transaction, if there is none */
    if (rc == SQLITE_OK)
        rc = run_rows(late, before);
    if (rc == SQLITE_OK)
        rc = execute(late, "COMMIT");
    bool written = rc == SQLITE_OK;
    if (written && inside)
        rc = execute(late, "BEGIN IMMEDIATE");
    if (inside && rc != SQLITE_OK && sqlite3_get_autocommit(s->db))
        store_fail_sqlite(&s->lost, s->db, rc);
    else if (!written)
        execute(late, "ROLLBACK TO late; RELEASE late");
    for (int64_t i = late->first; written && i < late->next; i++)
        if (*place_of(late, i) != NULL && (*place_of(late, i))->at <= before)
            drop(place_of(late, i));
}

/* Rows are in the order of their age. */
static const LateRow *oldest(struct Late *late)
{
    while (late->first < late->next && *place_of(late, late->first) == NULL)
        late->first++;
    return late->first < late->next ? *place_of(late, late->first) : NULL;
}

static void wait_for(struct Late *late, double seconds)
{
    double at = loop_now() + seconds;
    struct timespec until = {.tv_sec = (time_t)at, .tv_nsec = (long)((at - floor(at)) * 1e9)};
    pthread_cond_timedwait(&late->changed, &late->mutex, &until);
}

static void *look_after(void *arg)
{
    struct Late *late = arg;
    pthread_mutex_lock(&late->mutex);
    while (!late->ends) {
        const LateRow *row = oldest(late);
        double before = loop_now() - LATE_S;
        late->sleeps = row == NULL;
        bool is_late = row != NULL && row->at <= before;
        bool is_busy = late->held || late->store->taken > 0;
        if (is_late && !is_busy)
            write_rows(late, before);
        if (row == NULL)
            pthread_cond_wait(&late->changed, &late->mutex);
        else
            wait_for(late, is_late && is_busy ? SOON_S : LATE_S);
    }
    pthread_mutex_unlock(&late->mutex);
    return NULL;
}

/* ---- beginning and ending ---- */

static int start_thread(struct Late *late)
{
    sigset_t all, before;
    pthread_mutexattr_t kind;
    pthread_condattr_t clock;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&late->mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&late->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&late->thread, NULL, look_after, late);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void free_late(struct Late *late)
{
    for (int64_t i = late->first; i < late->next; i++)
        drop(place_of(late, i));
    sqlite3_finalize(late->statement);
    pthread_cond_destroy(&late->changed);
    pthread_mutex_destroy(&late->mutex);
    free(late->rows);
    free(late);
}

static StoreStatus begin_late(Store *s, StoreError *e)
{
    struct Late *late = calloc(1, sizeof *late);
    if (late == NULL)
        return store_fail(e, STORE_MEMORY, "not enough memory");
    late->store = s;
    late->first = late->next = 1;
    int error = start_thread(late);
    if (error != 0) {
        free_late(late);
        return store_fail_errno(e, "its thread cannot be started", error);
    }
    s->late = late;
    return STORE_OK;
}

void store_end_late(Store *s)
{
    struct Late *late = s->late;
    if (late == NULL)
        return;
    s->late = NULL;
    pthread_mutex_lock(&late->mutex);
    late->ends = true;
    pthread_cond_signal(&late->changed);
    pthread_mutex_unlock(&late->mutex);
    pthread_join(late->thread, NULL);
    if (oldest(late) != NULL) {
        store_rollback(s, NULL);
        write_rows(late, INFINITY);
    }
    free_late(late);
}

/* ---- rows ---- */

static bool grow(struct Late *late)
{
    int64_t capacity = late->capacity == 0 ? FIRST_CAPACITY : 2 * late->capacity;
    LateRow **rows = calloc((size_t)capacity, sizeof *rows);
    if (rows == NULL)
        return false;
    for (int64_t i = late->first; i < late->next; i++)
        rows[i % capacity] = *place_of(late, i);
    free(late->rows);
    late->rows = rows;
    late->capacity = capacity;
    return true;
}

static LateRow *copy_row(const char *sql, const StoreValue *values, int count)
{
    size_t size = sizeof(LateRow) + (size_t)count * sizeof *values + strlen(sql) + 1;
    for (int i = 0; i < count; i++)
        size += values[i].size;
    LateRow *row = malloc(size);
    if (row == NULL)
        return NULL;
    char *end = (char *)&row->values[count];
    *row = (LateRow){.at = loop_now(), .count = count};
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

static StoreStatus add_row(struct Late *late, LateRow *row, int64_t *ticket)
{
    pthread_mutex_lock(&late->mutex);
    oldest(late);
    bool fits = late->next - late->first < late->capacity || grow(late);
    if (fits) {
        *ticket = late->next++;
        *place_of(late, *ticket) = row;
    }
    late->held = false;
    if (late->sleeps)
        pthread_cond_signal(&late->changed);
    pthread_mutex_unlock(&late->mutex);
    return fits ? STORE_OK : STORE_MEMORY;
}

StoreStatus store_hold_back(Store *s, const char *sql, const StoreValue *values, int count,
                            int64_t *ticket, StoreError *e)
{
    if (s->late == NULL && begin_late(s, e) != STORE_OK)
        return e->status;
    LateRow *row = copy_row(sql, values, count);
    if (row != NULL && add_row(s->late, row, ticket) == STORE_OK)
        return STORE_OK;
    free(row);
    return store_fail(e, STORE_MEMORY, "not enough memory");
}

bool store_take_back(Store *s, int64_t ticket)
{
    struct Late *late = s->late;
    if (late == NULL)
        return false;
    pthread_mutex_lock(&late->mutex);
    bool waits = ticket >= late->first && ticket < late->next && *place_of(late, ticket) != NULL;
    if (waits)
        drop(place_of(late, ticket));
    pthread_mutex_unlock(&late->mutex);
    return waits;
}

void store_enter(Store *s)
{
    if (s->late != NULL)
        pthread_mutex_lock(&s->late->mutex);
}

void store_leave(Store *s)
{
    if (s->late != NULL)
        pthread_mutex_unlock(&s->late->mutex);
}

static void set_held(Store *s, bool held)
{
    store_enter(s);
    if (s->late != NULL)
        s->late->held = held;
    store_leave(s);
}

void store_hold_commit(Store *s)
{
    set_held(s, true);
}

void store_release_commit(Store *s)
{
    set_held(s, false);
}
