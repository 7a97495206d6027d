/* Whose private memory this rank can read: that of its own process, and what the kernel lets process_vm_readv() see. */
#include "inside.h"
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t process_word;

static uint64_t random_word(void)
{
    uint64_t word = 0;
    if (getrandom(&word, sizeof word, GRND_NONBLOCK) != (ssize_t)sizeof word)
        word = rt_now_ns(&rt_system_clock) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)&word;
    return word;
}

static void process_word_make(void)
{
    process_word = random_word();
}

/* A random word tells processes apart, whatever their namespaces; forked ones, which inherit it, differ in number or
 * namespace. */
static uint64_t process_identity(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct stat space = { 0 };
    pthread_once(&once, process_word_make);
    if (stat("/proc/self/ns/pid", &space) != 0) space.st_ino = 0;
    return process_word ^ ((uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15)) ^
           ((uint64_t)space.st_ino * UINT64_C(0xc2b2ae3d27d4eb4f));
}

void rt_identity_make(struct rt_identity *identity, uint64_t *word)
{
    *word = random_word();
    *identity = (struct rt_identity){ process_identity(), *word, (uintptr_t)word };
}

/* The word must be found where the peer says that it is: a process number may mean another process here than there. */
int rt_reads(const struct rt_identity *self, const struct rt_identity *peer, uint32_t peer_pid)
{
    if (peer->process == self->process) return 2;
    uint64_t found = 0;
    struct iovec here = { &found, sizeof found };
    struct iovec there = { (void *)(uintptr_t)peer->word_address, sizeof found };
    return process_vm_readv((pid_t)peer_pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof found && found == peer->word;
}
