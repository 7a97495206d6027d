/* RINGTREE_LOG: off by default; never on the fast path. */
#ifndef RT_LOG_H
#define RT_LOG_H

#include "settings.h"

enum rt_log_level { RT_LOG_ERROR = 1, RT_LOG_WARN, RT_LOG_INFO, RT_LOG_DEBUG };

/* Opens the file of RINGTREE_LOG_FILE, or stderr. Process wide; the first opener wins until the last closes. */
ringtree_status rt_log_open(const struct rt_settings *settings, uint32_t rank, struct rt_error *error);
void rt_log_close(void);
void rt_log(enum rt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
