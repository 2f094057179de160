/*
 * private.h -- files for their owner alone, also in directories where others may write.
 *
 * What is made has mode 0600 (directories 0700), whatever the umask. In a directory such as /tmp
 * somebody else may have put a symbolic or hard link, or a file of their own, where ours is to be:
 * such a file is neither written nor trusted.
 */
#ifndef PONDER_STORE_PRIVATE_H
#define PONDER_STORE_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

/* Why the open file must not be written, as text to be read after "FILE: "; NULL: it may be. */
const char *private_refusal(const char *path, int fd);

/* Why a file that SQLite would use beside the database must not be used; NULL: it may be. */
const char *private_beside_refusal(const char *path);

/* Takes from everybody else what they may do with the file, if it is our own. */
void private_tighten(const char *path);

/* Makes a file that is not there. -1 and errno. */
int private_create(const char *path);

/* Opens a file to be written from its start; makes it if there is none. -1, with errno or *why. */
int private_open(const char *path, const char **why);

/* Makes the directories of a path, up to its end or to its last slash. 0, or an errno. */
int private_make_directories(const char *path, bool whole);

#endif
