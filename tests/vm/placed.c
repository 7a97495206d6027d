/*
 * A rank that says where it is: its cores, the NUMA domain of memory from ringtree_mem_alloc(), whether the slots that
 * it sends through are there too, and the cores of its progress thread, if RINGTREE_PROGRESS_THREAD=1.
 */
#include <ringtree/ringtree.h>
#include <dirent.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT (1 << 19)

static int domain_of(void *page)
{
    int domain = -1;
    syscall(SYS_get_mempolicy, &domain, NULL, 0, page, MPOL_F_NODE | MPOL_F_ADDR);
    return domain;
}

/* Pages in that domain of all mappings of ringtree's shared file, but those of the heap at `heap`. */
static long count_pages(int domain, const void *heap)
{
    char line[1024], key[16];
    long pages = 0;
    FILE *file = fopen("/proc/self/numa_maps", "r");
    snprintf(key, sizeof key, " N%d=", domain);
    while (file && fgets(line, sizeof line, file)) {
        const char *found = strstr(line, key);
        if (strstr(line, "memfd:") && found && strtoul(line, NULL, 16) != (uintptr_t)heap)
            pages += strtol(found + strlen(key), NULL, 10);
    }
    if (file) fclose(file);
    return pages;
}

static void say_cores(const char *task)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0) {
            line[strcspn(line, "\n")] = '\0';
            printf("%s", line + 19);
        }
    if (file) fclose(file);
}

/* The newest thread, which is made last. */
static void say_progress_thread(void)
{
    long newest = 0;
    char name[24];
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strtol(entry->d_name, NULL, 10) > newest) newest = strtol(entry->d_name, NULL, 10);
    if (folder) closedir(folder);
    snprintf(name, sizeof name, "%ld", newest);
    printf(", progress thread on ");
    say_cores(name);
}

static void say(uint32_t rank, void *memory)
{
    char task[24];
    const int domain = domain_of(memory);
    snprintf(task, sizeof task, "%d", getpid());
    printf("rank %u: cores ", rank);
    say_cores(task);
    printf(", memory in domain %d, slots %s", domain, count_pages(domain, memory) >= 16 ? "too" : "elsewhere");
    const char *thread = getenv("RINGTREE_PROGRESS_THREAD");
    if (thread && *thread == '1') say_progress_thread();
    putchar('\n');
    fflush(stdout);
}

int main(void)
{
    ringtree_comm *comm = NULL;
    void *memory = NULL;
    float *array = calloc(COUNT, sizeof *array);
    if (!array || ringtree_init(&comm) || ringtree_mem_alloc(comm, 1 << 20, &memory) ||
        ringtree_all_reduce(comm, array, array, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, NULL))
        return fprintf(stderr, "placed: %s\n", ringtree_last_error(comm)), 1;
    memset(memory, 1, 1 << 20);
    for (uint32_t r = 0; r < ringtree_size(comm); r++) { /* one after the other */
        if (r == ringtree_rank(comm)) say(r, memory);
        if (ringtree_barrier(comm, NULL)) return 1;
    }
    free(array);
    return ringtree_destroy(comm) != RINGTREE_OK;
}
