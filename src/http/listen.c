/* listen.c -- the sockets that a server listens on; see server.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/server.h"
#include "loop/system.h"

enum { BACKLOG = 1024 };

static int refuse(char error[200], const char *what, int code)
{
    snprintf(error, 200, "%s: %s%s", what, strerror(code), loop_descriptor_hint(code));
    return -1;
}

static int nonblocking_socket(int domain, int type, int protocol)
{
    int fd = system_socket(domain, type, protocol);
    if (fd >= 0)
        fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Whether somebody listens at a socket file. */
static bool is_alive(const struct sockaddr_un *address)
{
    int fd = system_socket(AF_UNIX, SOCK_STREAM, 0);
    bool alive = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    if (fd >= 0)
        close(fd);
    return alive;
}

static int listen_unix(const char *path, char shown[300], char error[200])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    if (*path == '\0' || strlen(path) >= sizeof address.sun_path) {
        snprintf(error, 200, "unix: the path must have 1 to %zu bytes",
                 sizeof address.sun_path - 1);
        return -1;
    }
    strcpy(address.sun_path, path);
    if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode) && there.st_uid == geteuid() &&
        !is_alive(&address))
        unlink(path);
    int fd = nonblocking_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return refuse(error, path, errno);
    mode_t mask = umask(0177);
    int failed =
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0;
    int code = errno;
    umask(mask);
    if (failed) {
        close(fd);
        return refuse(error, path, code);
    }
    snprintf(shown, 300, "unix:%s", path);
    return fd;
}

static void show_address(int fd, char shown[300])
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[200], port[20];
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        *shown = '\0';
        return;
    }
    bool is_v6 = address.ss_family == AF_INET6;
    snprintf(shown, 300, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int listen_at(const struct addrinfo *at)
{
    int fd = nonblocking_socket(at->ai_family, at->ai_socktype, 0);
    int on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

int http_listen(const char *address, char shown[300], char error[200])
{
    if (strncmp(address, "unix:", 5) == 0)
        return listen_unix(address + 5, shown, error);
    char host[200];
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    if (length == 0 || length >= sizeof host) {
        snprintf(error, 200, "expected HOST:PORT or unix:PATH");
        return -1;
    }
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(length - (bracketed ? 2 : 0)),
             address + (bracketed ? 1 : 0));
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int failed = getaddrinfo(host, colon + 1, &hints, &found);
    if (failed != 0) {
        snprintf(error, 200, "%.100s: %.90s", address, gai_strerror(failed));
        return -1;
    }
    int fd = listen_at(found);
    int code = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return refuse(error, address, code);
    show_address(fd, shown);
    return fd;
}
