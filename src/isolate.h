/*
 * isolate.h -- runs an external program in its own namespaces, for ponder.process.
 *
 *   user, mount   the program sees /usr, /bin, /lib..., read-only, and a private /tmp in memory
 *   PID, IPC      it sees only its own children, which end with it
 *   network       none
 *   rlimits       on memory, CPU time, files and processes
 *
 * Creating a user namespace takes a process with a single thread, so the executable starts itself:
 *
 *     ponder --isolated CPU_SECONDS MEMORY_MB DIRECTORY|"" [PROGRAM ARGUMENT...]
 *
 * The program's environment comes with ISOLATE_MARK before each name: LD_PRELOAD, or
 * LD_DEBUG_OUTPUT, must not affect a process that is not isolated yet.
 *
 * The exit status is the program's; ISOLATE_FAILED where the kernel or the surrounding container
 * does not allow the namespaces; 127 if there is no such program. Without a program it only checks
 * that the namespaces are available.
 */
#ifndef PONDER_ISOLATE_H
#define PONDER_ISOLATE_H

#define ISOLATE_ARGUMENT "--isolated"
enum { ISOLATE_FAILED = 125, ISOLATE_MARK = '+' };

/* The main function of that process; returns its exit status. */
int isolate_main(int argc, char **argv);

#endif
