/* Starting a thread; see thread.h. */
#include "thread.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#define STACK_BYTES (256 * 1024) /* the deepest use is a few sentences of 1 KiB; sanitizers multiply it */
#define DEFAULT_STACK_BYTES (8 * 1024 * 1024)

int rt_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t ignored, *to = thread ? thread : &ignored;
    sigset_t all, before;

    int failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, thread ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(to, &attributes, run, argument);
    if (failed == EINVAL) { /* the program's thread-local variables alone need more; a default stack has the room */
        pthread_attr_setstacksize(&attributes, DEFAULT_STACK_BYTES);
        failed = pthread_create(to, &attributes, run, argument);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!failed && thread)
        pthread_setname_np(*thread, name);
    return failed;
}
