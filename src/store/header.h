/*
 * header.h -- reads the header of an SQLite file without SQLite, so that a refused file is not
 * touched and gets no -wal or -journal beside it.
 */
#ifndef PONDER_STORE_HEADER_H
#define PONDER_STORE_HEADER_H

#include <limits.h>
#include <stdint.h>

#include "store/failure.h"

enum { HEADER_PATH_SIZE = PATH_MAX + 16 }; /* of a real path and a suffix */

typedef struct FileHeader {
    uint32_t application_id;
    uint32_t version; /* user_version */
    bool is_wal;      /* in WAL mode */
    bool has_wal;     /* there is a non-empty -wal */
} FileHeader;

/* `real_path` is that of `fd`, with links resolved. Refuses other kinds of file and truncated ones.
 */
StoreStatus header_read(int fd, const char *real_path, const char *kind, FileHeader *out,
                        StoreError *e);

/* Switches a file that nobody has open to WAL mode. SQLite would do that with a journal on disk,
 * which locks readers out if the process is killed. Returns 0 or an errno value. */
int header_set_wal(int fd);

/* Whether the file real_path + suffix exists and is larger than `size` bytes. */
bool header_beside(const char *real_path, const char *suffix, int64_t size);

#endif
