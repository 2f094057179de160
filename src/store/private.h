/*
 * private.h -- files that only their owner can read, even in directories where others may write.
 *
 * New files have mode 0600 (directories 0700), whatever the umask. In a directory such as /tmp
 * somebody else may have put a link or their own file where ours belongs: it is neither written nor
 * trusted.
 */
#ifndef PONDER_STORE_PRIVATE_H
#define PONDER_STORE_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

/* Why the file, which is open if fd >= 0, must not be written, to follow "FILE "; NULL: it may be.
 * (A device may; so may a file that does not exist.) */
const char *private_refusal(const char *path, int fd);

/* Removes all permissions of others, if the file is ours. */
void private_tighten(const char *path);

/* Creates a file that must not exist. Returns a descriptor, or -1 and errno. */
int private_create(const char *path);

/* Creates a file, or opens and truncates it. Returns a descriptor, or -1 with errno or *why. */
int private_open(const char *path, const char **why);

/* Creates a directory and those above it that are missing. Returns 0 or an errno value. */
int private_make_directories(const char *path);

#endif
