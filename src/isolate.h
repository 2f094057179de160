/*
 * isolate.h -- runs an external program in its own namespaces, for ponder.process.
 *
 *   user      it is uid 1000 inside: the user of ponder outside, or nobody (65534) if that is root
 *   mount     it sees /usr, /bin, /lib..., read-only; a private /tmp in memory; five devices, which
 *             it can use but not change; and its directory, read-only, in an overlay in which the
 *             sockets and FIFOs of others lead nowhere, without what is mounted below it
 *   PID, IPC  it sees only its own children, which end with it. /proc is read-only, and without
 *             what concerns the whole machine (the paths that OCI runtimes mask, and sysctls)
 *   network   none
 *   inherited standard input, output and error; no other descriptor, and an empty session keyring
 *   rlimits   on memory, CPU time, files and processes
 *
 * bubblewrap (0.11) was looked at: it keeps root's id, inherited descriptors and keyrings, binds
 * its directories (so sockets work) unless it gets overlays, and sets no rlimits.
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
