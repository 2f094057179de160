/* descriptors.c -- how many descriptors the process may open; see loop.h. */
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

#include "loop/loop.h"

void loop_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

const char *loop_descriptor_hint(int error)
{
    return error == EMFILE ? " (EMFILE: raise `ulimit -n`)" : "";
}

/* Open descriptors, except that of the listing itself. If it cannot be opened, all are in use. */
static int64_t count_open(void)
{
    int64_t n = -1;
    DIR *list = opendir("/proc/self/fd");
    if (list == NULL)
        return errno == EMFILE || errno == ENFILE ? INT64_MAX : 0;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(list);
    return n;
}

int64_t loop_free_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return INT64_MAX;
    int64_t open = count_open(), max = (int64_t)limit.rlim_cur;
    return open < max ? max - open : 0;
}
