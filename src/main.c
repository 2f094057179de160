/* main.c -- the executable: opens a host, runs the command line, returns its exit status. */
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "isolate.h"
#include "loop/loop.h"
#include "signals.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], ISOLATE_ARGUMENT) == 0)
        return isolate_main(argc, argv);
    host_guard_streams();
    loop_raise_descriptor_limit();
    Host *host = host_open();
    if (host == NULL) {
        fputs("ponder: not enough memory to start\n", stderr);
        return 1;
    }
    signals_catch();
    int status = host_main(host, argc, argv);
    host_close(host);
    return status;
}
