/*
 * isolate.h -- a program of another language in namespaces of its own, for ponder.process.
 *
 *   user, mount   it sees /usr and what belongs to it, read-only, and a /tmp of its own in memory
 *   PID, IPC      only what it has started itself, which ends with it
 *   network       none
 *   rlimits       of memory, processor time, files and processes
 *
 * The executable starts itself with ISOLATE_ARGUMENT, so that all of this is done by a process with
 * one thread:
 *
 *     ponder --isolated CPU_SECONDS MEMORY_MB DIRECTORY|"" [PROGRAM ARGUMENT...]
 *
 * It ends as the program does; with ISOLATE_FAILED where the kernel, or a container around it, does
 * not have the namespaces, and with 127 where there is no such program. Without a program it only
 * tries.
 */
#ifndef PONDER_ISOLATE_H
#define PONDER_ISOLATE_H

#define ISOLATE_ARGUMENT "--isolated"
enum { ISOLATE_FAILED = 125 };

/* The whole of that process; returns its exit status. */
int isolate_main(int argc, char **argv);

#endif
