/* Folders of a test's own, removed when its program ends, also when a test fails. A child leaves them to its parent. */
#ifndef RT_TEST_FOLDER_H
#define RT_TEST_FOLDER_H

#include "test.h"
#include <ftw.h>
#include <unistd.h>

#define TEST_FOLDERS 32
static char  test_folder_paths[TEST_FOLDERS][64];
static int   test_folder_count;
static pid_t test_folder_owner;

static inline int test_folder_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path) && 0; /* goes on with what is left */
}

static inline void test_folders_end(void)
{
    for (int i = 0; i < test_folder_count && getpid() == test_folder_owner; i++)
        nftw(test_folder_paths[i], test_folder_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* A new, empty one. */
static inline const char *test_folder(void)
{
    if (test_folder_count == TEST_FOLDERS) abort();
    char *path = test_folder_paths[test_folder_count];
    strcpy(path, "/tmp/ringtree-test-XXXXXX");
    if (!mkdtemp(path)) abort();
    test_folder_owner = getpid();
    if (!test_folder_count++) atexit(test_folders_end);
    return path;
}

#endif
