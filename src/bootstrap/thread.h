/* Threads of the library: no signals reach them, small stacks, named for debuggers. */
#ifndef RT_THREAD_H
#define RT_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* `thread` NULL: detached. 0 or an errno. */
int rt_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
