/* host.h -- the Lua state that scripts run in: memory limit, built-in modules, loaders. */
#ifndef PONDER_HOST_H
#define PONDER_HOST_H

typedef struct Host Host;

/* A host with its libraries open, or NULL if there is no memory for one. */
Host *host_open(void);

/* Keeps descriptors 0 to 2 occupied, so that no file a script opens becomes a standard stream, and
 * makes the process exit with a message and status 1 if standard output could not be written. */
void host_guard_streams(void);

/* Runs the command line (lua/ponder/cli/shared/main.lua) and returns the exit status. */
int host_main(Host *host, int argc, char **argv);

/* Closes the state: runs to-be-closed variables and finalizers. The process ends then. */
void host_close(Host *host);

#endif
