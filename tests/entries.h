/* Files, descriptors, threads: how many there are, by the folder that lists them. */
#ifndef RT_TEST_ENTRIES_H
#define RT_TEST_ENTRIES_H

#include <dirent.h>

static inline int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

#endif
