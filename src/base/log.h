/*
 * RINGTREE_LOG: off by default; never on the fast path. A line:
 * 2026-11-30T07:05:39.123456Z host pid rank 3 info: text
 */
#ifndef RT_LOG_H
#define RT_LOG_H

#include "settings.h"

enum rt_log_level { RT_LOG_ERROR = 1, RT_LOG_WARN, RT_LOG_INFO, RT_LOG_DEBUG };

/* Opens the file of RINGTREE_LOG_FILE, or stderr. Process wide; the first opener wins until the last closes. */
ringtree_status rt_log_open(const struct rt_settings *settings, uint32_t rank, struct rt_error *error);
void rt_log_close(void);

/* Lines of the calling thread, one of the library's own, are of this rank. The thread that opened needs no call. */
void rt_log_thread(uint32_t rank);

/* Costs one relaxed load when `level` is off. Keeps errno. May be called while the log is closed. */
void rt_log(enum rt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
