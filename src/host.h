/*
 * host.h -- the Lua state that scripts run in: memory limit, built-in modules, loaders.
 */
#ifndef PONDER_HOST_H
#define PONDER_HOST_H

typedef struct Host Host;

/* A host with its libraries open, or NULL if there is no memory for one. */
Host *host_open(void);

/* A standard stream that is closed stays unusable: no file that a script opens takes its place.
 * What could not be written to standard output ends the process with a message and status 1. */
void host_guard_streams(void);

/* Runs the command line (lua/ponder/cli.lua) and returns the exit status. */
int host_main(Host *host, int argc, char **argv);

/* Closes the state: to-be-closed variables and finalizers run, all memory is returned. */
void host_close(Host *host);

#endif
