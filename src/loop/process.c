/* process.c -- see process.h. */
#include "loop/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buffer.h"
#include "loop/parts.h"
#include "loop/system.h"

enum { CHUNK = 64 * 1024 };

/* Our end of a pipe. */
typedef struct Pipe {
    int fd; /* -1: closed */
    LoopHandle *watch;
    Buffer buffer;
    size_t start; /* of the unconsumed bytes in `buffer` */
    Process *process;
} Pipe;

struct Process {
    LoopPort port;
    uv_process_t uv;
    size_t max_buffered;
    Pipe input, outputs[2];
    bool close_input; /* once all is written */
    enum { NEW, RUNNING, ENDED } state;
    int64_t status;
    int signal;
    LIST_ENTRY(Process) link; /* while it runs */
};

static LIST_HEAD(, Process) running;
static pid_t forking_from; /* our pid while process_start forks, else 0 */

static void *libc_resize(void *ud, void *block, size_t old_size, size_t new_size)
{
    (void)ud, (void)old_size;
    if (new_size > 0)
        return realloc(block, new_size);
    free(block);
    return NULL;
}

static const Alloc libc_alloc = {libc_resize, NULL};

/* ---- pipes ---- */

static void close_pipe(Pipe *p)
{
    if (p->fd < 0)
        return;
    loop_end(p->watch);
    close(p->fd);
    p->fd = -1;
    p->watch = NULL;
}

static void consume(Pipe *p, size_t n)
{
    p->start += n;
    if (p->start < p->buffer.size)
        return;
    p->start = 0;
    buffer_reset(&p->buffer, &libc_alloc, CHUNK);
}

static size_t held(const Pipe *p)
{
    return p->buffer.size - p->start;
}

static bool append(Pipe *p, const char *bytes, size_t n)
{
    buffer_compact(&p->buffer, &p->start);
    return buffer_append(&p->buffer, &libc_alloc, bytes, n);
}

static bool is_full(const Pipe *p)
{
    return held(p) >= p->process->max_buffered;
}

static void on_output(void *arg, int fd, int events)
{
    static char chunk[CHUNK];
    Pipe *p = arg;
    size_t room = p->process->max_buffered - held(p); /* > 0: a full pipe is not watched */
    (void)events;
    ssize_t n = read(fd, chunk, room < CHUNK ? room : CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bool kept = n > 0 && append(p, chunk, (size_t)n);
    if (!kept)
        close_pipe(p); /* end of file; or out of memory, and the child gets EPIPE */
    else if (is_full(p))
        loop_watch_for(p->watch, 0);
    loop_post(&p->process->port);
}

/* write without SIGPIPE. */
static ssize_t write_quietly(int fd, const char *bytes, size_t n)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignored, &before);
    ssize_t written = write(fd, bytes, n);
    int error = errno;
    sigaction(SIGPIPE, &before, NULL);
    errno = error;
    return written;
}

static void flush_input(Process *p)
{
    Pipe *in = &p->input;
    while (in->fd >= 0 && held(in) > 0) {
        ssize_t n = write_quietly(in->fd, in->buffer.data + in->start, held(in));
        if (n > 0) {
            consume(in, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            loop_watch_for(in->watch, LOOP_WRITE);
            return;
        } else if (n < 0 && errno != EINTR) {
            consume(in, held(in));
            close_pipe(in);
        }
    }
    if (in->fd >= 0 && p->close_input)
        close_pipe(in);
    else if (in->fd >= 0)
        loop_watch_for(in->watch, 0);
}

static void on_input(void *arg, int fd, int events)
{
    Pipe *p = arg;
    (void)fd, (void)events;
    flush_input(p->process);
    loop_post(&p->process->port);
}

/* ---- ending with this process ---- */

void process_kill_all(void)
{
    const Process *p;
    LIST_FOREACH(p, &running, link)
    kill(-p->uv.pid, SIGKILL);
}

/* Runs in every forked child: our children are not its own. A child of process_start gets SIGKILL
 * when we end, and inherits no file that a script has open. */
static void after_fork(void)
{
    LIST_INIT(&running);
    if (forking_from == 0)
        return;
    system_die_with_parent();
    system_close_from(STDERR_FILENO + 1, true);
    if (getppid() != forking_from)
        _exit(127);
}

/* Kills the group of a process, or what is left of it. */
static void end_group(Process *p)
{
    kill(-p->uv.pid, SIGKILL);
    LIST_REMOVE(p, link);
}

/* ---- starting ---- */

static void on_exit_status(uv_process_t *uv, int64_t status, int signal)
{
    Process *p = uv->data;
    loop_count_callback();
    p->state = ENDED;
    p->status = status;
    p->signal = signal;
    end_group(p);
    consume(&p->input, held(&p->input));
    close_pipe(&p->input);
    loop_post(&p->port);
}

/* Opens a pipe and watches our end; the child's end goes to *theirs. */
static bool open_pipe(Process *p, Pipe *pipe, bool is_input, int *theirs)
{
    int fds[2];
    int error = uv_pipe(fds, is_input ? 0 : UV_NONBLOCK_PIPE, is_input ? UV_NONBLOCK_PIPE : 0);
    if (error != 0)
        return errno = -error, false;
    pipe->process = p;
    pipe->fd = fds[is_input ? 1 : 0];
    *theirs = fds[is_input ? 0 : 1];
    pipe->watch =
        loop_watch(pipe->fd, is_input ? 0 : LOOP_READ, is_input ? on_input : on_output, pipe);
    return pipe->watch != NULL;
}

static int spawn(Process *p, const ProcessOptions *o, const int theirs[3])
{
    uv_stdio_container_t streams[3];
    for (int i = 0; i < 3; i++) {
        streams[i].flags = UV_INHERIT_FD;
        streams[i].data.fd = theirs[i];
    }
    uv_process_options_t options = {
        .exit_cb = on_exit_status,
        .file = o->arguments[0],
        .args = o->arguments,
        .env = o->environment,
        .cwd = o->cwd,
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = 3,
        .stdio = streams,
    };
    forking_from = getpid();
    int error = uv_spawn(loop_get(), &p->uv, &options);
    forking_from = 0;
    loop_count_handle(1);
    p->state = error == 0 ? RUNNING : ENDED; /* libuv knows the handle even if there is no child */
    if (error == 0)
        LIST_INSERT_HEAD(&running, p, link);
    return -error;
}

Process *process_start(const ProcessOptions *o)
{
    static bool registered;
    int theirs[3] = {-1, -1, -1};
    if (!registered)
        registered = pthread_atfork(NULL, NULL, after_fork) == 0 && atexit(process_kill_all) == 0;
    Process *p = loop_get() != NULL ? calloc(1, sizeof *p) : NULL;
    if (p == NULL)
        return NULL;
    p->max_buffered = o->max_buffered;
    p->uv.data = p;
    p->input.fd = p->outputs[0].fd = p->outputs[1].fd = -1;
    loop_port_open(&p->port);
    bool opened = open_pipe(p, &p->input, true, &theirs[0]) &&
                  open_pipe(p, &p->outputs[PROCESS_STDOUT], false, &theirs[1]) &&
                  open_pipe(p, &p->outputs[PROCESS_STDERR], false, &theirs[2]);
    int error = opened ? spawn(p, o, theirs) : errno;
    for (int i = 0; i < 3; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    if (error == 0)
        return p;
    process_drop(p);
    errno = error;
    return NULL;
}

/* ---- using and ending ---- */

const char *process_output(const Process *p, ProcessStream which, size_t *size, bool *ended)
{
    const Pipe *out = &p->outputs[which];
    *ended = out->fd < 0;
    *size = held(out);
    return *size > 0 ? out->buffer.data + out->start : "";
}

bool process_is_full(const Process *p, ProcessStream which)
{
    return is_full(&p->outputs[which]);
}

void process_consume(Process *p, ProcessStream which, size_t bytes)
{
    Pipe *out = &p->outputs[which];
    bool was_full = is_full(out);
    consume(out, bytes);
    if (was_full && !is_full(out) && out->fd >= 0)
        loop_watch_for(out->watch, LOOP_READ);
}

bool process_write(Process *p, const char *bytes, size_t n)
{
    if (p->input.fd < 0 || p->close_input)
        return true;
    size_t before = held(&p->input);
    if (!append(&p->input, bytes, n))
        return false;
    flush_input(p);
    if (held(&p->input) < before)
        loop_post(&p->port); /* others may wait for it */
    return true;
}

size_t process_unwritten(const Process *p)
{
    return held(&p->input);
}

bool process_input_is_open(const Process *p)
{
    return p->input.fd >= 0 && !p->close_input;
}

void process_close_input(Process *p)
{
    p->close_input = true;
    flush_input(p);
}

bool process_has_ended(const Process *p, int64_t *status, int *signal)
{
    *status = p->status;
    *signal = p->signal;
    return p->state == ENDED;
}

void process_kill(Process *p, int signal)
{
    if (p->state == RUNNING)
        kill(-p->uv.pid, signal);
}

/* Waits for a child that was killed and dropped, so that it does not stay a zombie. */
static void on_late_exit(uv_process_t *uv, int64_t status, int signal)
{
    (void)status, (void)signal;
    loop_count_callback();
    loop_close_handle((uv_handle_t *)uv, uv->data);
}

void process_drop(Process *p)
{
    loop_unpost(&p->port);
    Pipe *pipes[] = {&p->input, &p->outputs[0], &p->outputs[1]};
    for (int i = 0; i < 3; i++) {
        close_pipe(pipes[i]);
        buffer_free(&pipes[i]->buffer, &libc_alloc);
    }
    if (p->state == NEW) {
        free(p);
    } else if (p->state == ENDED) {
        loop_close_handle((uv_handle_t *)&p->uv, p);
    } else {
        end_group(p);
        p->uv.exit_cb = on_late_exit;
    }
}
