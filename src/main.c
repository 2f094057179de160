/*
 * main.c -- argv -> host -> exit status.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/l_task.h"
#include "host.h"

/* The first Ctrl-C stops the script where it stands; a second one ends the process. */
static void on_interrupt(int signo)
{
    signal(signo, SIG_DFL);
    task_interrupt();
}

static void catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt; /* without SA_RESTART: a wait ends early */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int main(int argc, char **argv)
{
    Host *host = host_open();
    if (host == NULL) {
        fputs("ponder: not enough memory to start\n", stderr);
        return 1;
    }
    catch_interrupts();
    int status = host_main(host, argc, argv);
    host_close(host);
    return status;
}
