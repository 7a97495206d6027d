/* The machine's own monotonic clock. */
#include "clock.h"
#include <time.h>

static uint64_t system_now_ns(void *context)
{
    struct timespec now;

    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const struct rt_clock rt_system_clock = { system_now_ns, NULL };
