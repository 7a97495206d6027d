/* Time and waiting are handed in, so that a simulator can own them. */
#ifndef RT_CLOCK_H
#define RT_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct rt_clock {
    uint64_t (*now_ns)(void *context); /* monotonic */
    void *context;
};

/* CLOCK_MONOTONIC */
extern const struct rt_clock rt_system_clock;

static inline uint64_t rt_now_ns(const struct rt_clock *clock)
{
    return clock->now_ns(clock->context);
}

static inline void rt_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
