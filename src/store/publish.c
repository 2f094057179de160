/*
 * publish.c -- renames a complete file to its final name.
 *
 * SQLite finds -wal and -shm by the name it opened, so the connection is closed before and reopened
 * after. The claim's descriptor and lock stay: they belong to the file, not to its name.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/header.h"
#include "store/private.h"
#include "store/store.h"

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
    store_disconnect(s);
    s->staged = false;
    /* Only the owner of the staging file can create this name, so a file here is not ours. */
    struct stat existing;
    int error = lstat(path, &existing) == 0 ? EEXIST : 0;
    if (error == 0) { /* a stale -wal would be read as this file's */
        store_remove_beside(path);
        error = header_set_wal(s->claim->fd);
    }
    if (error == 0 && fsync(s->claim->fd) != 0)
        error = errno;
    if (error != 0)
        status = store_fail_errno(e, error == EEXIST ? "" : "cannot be read or written", error);
    else if (private_rename_new(staging, path) != 0)
        status = store_fail_errno(e, "cannot be created", errno);
    if (status != STORE_OK) {
        store_remove(staging);
    } else if ((status = store_connect_writer(s, path, e)) != STORE_OK) {
        store_disconnect(s);
        store_remove(path);
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
