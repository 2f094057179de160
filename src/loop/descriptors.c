/*
 * descriptors.c -- how many descriptors the process may open. See loop.h.
 */
#include <dirent.h>
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

/* Those that are open; the directory that lists them is one itself. */
static int64_t count_open(void)
{
    int64_t n = -1;
    DIR *list = opendir("/proc/self/fd");
    if (list == NULL)
        return 0;
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
    int64_t left = (int64_t)limit.rlim_cur - count_open();
    return left > 0 ? left : 0;
}
