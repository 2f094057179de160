/*
 * header.h -- what the first bytes of an SQLite file say, read without SQLite: a file that is
 * refused stays as it is, and gets no -wal or -journal beside it.
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
    bool is_wal;      /* to be read through -wal and -shm */
    bool has_wal;     /* there is a -wal with something in it */
} FileHeader;

/* `real_path` is that of `fd`, all links resolved. Refuses other files and cut ones. */
StoreStatus header_read(int fd, const char *real_path, const char *kind, FileHeader *out,
                        StoreError *e);

/* Puts a file that nobody has open in WAL mode. SQLite's own way there needs a journal on disk,
 * which keeps readers out if the process is killed. 0, or errno. */
int header_set_wal(int fd);

/* Whether there is real_path + suffix, and more in it than `least` bytes. */
bool header_beside(const char *real_path, const char *suffix, int64_t least);

#endif
