/* A cache of measurements of a test's own, in a folder that the library has yet to make. */
#ifndef RT_TEST_CACHE_H
#define RT_TEST_CACHE_H

#include "folder.h"
#include <dirent.h>
#include <stdbool.h>

#define MOST 4096

static char directory[64], cache_setting[128];

static void make_directory(void)
{
    strcpy(directory, test_folder());
    snprintf(cache_setting, sizeof cache_setting, "RINGTREE_CACHE_DIR=%s/cache", directory);
}

/* The file in the cache; false: there is none. */
static bool find_file(char path[MOST])
{
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", directory);
    DIR *dir = opendir(cache);
    bool found = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            snprintf(path, MOST, "%s/%s", cache, entry->d_name);
            found = true;
        }
    if (dir) closedir(dir);
    return found;
}

#endif
