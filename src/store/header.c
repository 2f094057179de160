/* header.c -- the file format's first 100 bytes (sqlite.org/fileformat2.html, 1.3). */
#include "store/header.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_SIZE = 100,
    AT_PAGE_SIZE = 16,
    AT_WRITE_VERSION = 18,
    AT_READ_VERSION = 19, /* 2: WAL */
    AT_CHANGES = 24,
    AT_PAGES = 28,
    AT_USER_VERSION = 60,
    AT_APPLICATION = 68,
    AT_PAGES_VALID = 92 /* AT_PAGES is valid if this equals AT_CHANGES */
};

static uint32_t word(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

bool header_beside(const char *real_path, const char *suffix, int64_t size)
{
    struct stat file;
    char path[HEADER_PATH_SIZE];
    snprintf(path, sizeof path, "%s%s", real_path, suffix);
    return stat(path, &file) == 0 && file.st_size > size;
}

/* The file's size according to the header; 0 if it does not say. */
static int64_t expected_size(const unsigned char *header)
{
    uint32_t page_size = (uint32_t)header[AT_PAGE_SIZE] << 8 | header[AT_PAGE_SIZE + 1];
    if (word(header + AT_CHANGES) != word(header + AT_PAGES_VALID))
        return 0;
    return (int64_t)(page_size == 1 ? 65536 : page_size) * word(header + AT_PAGES);
}

static StoreStatus check_size(int fd, int64_t expected, StoreError *e)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return store_fail_errno(e, "cannot be read", errno);
    if (file.st_size < expected)
        return store_fail(e, STORE_DAMAGED, "damaged: truncated to %lld of %lld bytes",
                          (long long)file.st_size, (long long)expected);
    return STORE_OK;
}

StoreStatus header_read(int fd, const char *real_path, const char *kind, FileHeader *out,
                        StoreError *e)
{
    unsigned char header[HEADER_SIZE];
    ssize_t n = pread(fd, header, sizeof header, 0);
    if (n < 0)
        return store_fail_errno(e, "cannot be read", errno);
    if (n == 0)
        return store_fail(e, STORE_NOT_A_LOG, "not a %s: it is empty", kind);
    if (memcmp(header, "SQLite format 3", (size_t)n < 16 ? (size_t)n : 16) != 0)
        return store_fail(e, STORE_NOT_A_LOG, "not a %s", kind);
    if (n < HEADER_SIZE)
        return store_fail(e, STORE_DAMAGED, "damaged: truncated to %d bytes", (int)n);
    out->application_id = word(header + AT_APPLICATION);
    out->version = word(header + AT_USER_VERSION);
    out->is_wal = header[AT_READ_VERSION] == 2;
    /* An aborted checkpoint leaves a file that is too short without its -wal. The size is read
     * last, since a run that ends meanwhile completes the file and removes the -wal. */
    out->has_wal = header_beside(real_path, "-wal", 0);
    return out->has_wal ? STORE_OK : check_size(fd, expected_size(header), e);
}

int header_set_wal(int fd)
{
    static const unsigned char versions[] = {2, 2};
    ssize_t n = pwrite(fd, versions, sizeof versions, AT_WRITE_VERSION);
    return n == sizeof versions ? 0 : n < 0 ? errno : ENOSPC;
}
