/*
 * One mapping of the shared file per process, however many of its threads are ranks: they touch each page once, and a
 * race detector, which knows addresses and not what is mapped there, sees one memory.
 */
#include "inside.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct mapping {
    struct mapping *next;
    dev_t           device;
    ino_t           inode;
    void           *base;
    uint64_t        bytes;
    uint32_t        users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;

static struct mapping *find(const struct stat *file, uint64_t bytes)
{
    struct mapping *mapping = mappings;
    while (mapping && (mapping->device != file->st_dev || mapping->inode != file->st_ino || mapping->bytes != bytes))
        mapping = mapping->next;
    return mapping;
}

static struct mapping *add(int fd, const struct stat *file, uint64_t bytes)
{
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping) return NULL;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        free(mapping);
        return NULL;
    }
    madvise(base, bytes, MADV_DONTDUMP); /* a core file would have all its holes written out */
    *mapping = (struct mapping){ mappings, file->st_dev, file->st_ino, base, bytes, 0 };
    return mappings = mapping;
}

void *rt_mapping_open(int fd, uint64_t bytes)
{
    struct stat file;
    if (fstat(fd, &file) != 0) return NULL;
    pthread_mutex_lock(&lock);
    struct mapping *mapping = find(&file, bytes);
    if (!mapping) mapping = add(fd, &file, bytes);
    if (mapping) mapping->users++;
    pthread_mutex_unlock(&lock);
    return mapping ? mapping->base : NULL;
}

void rt_mapping_close(void *base)
{
    pthread_mutex_lock(&lock);
    for (struct mapping **at = &mappings; *at; at = &(*at)->next) {
        struct mapping *mapping = *at;
        if (mapping->base != base) continue;
        if (--mapping->users == 0) {
            *at = mapping->next;
            munmap(mapping->base, mapping->bytes);
            free(mapping);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
}
