/* What the hardware says, in words: what it means, and what to look at. */
#ifndef RT_VERBS_WORDS_H
#define RT_VERBS_WORDS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* Of a work completion. Never NULL, whatever the number. */
const char *rt_verbs_status_meaning(enum ibv_wc_status status);
const char *rt_verbs_status_advice(enum ibv_wc_status status);

/* Of an asynchronous event. */
const char *rt_verbs_event_meaning(enum ibv_event_type type);
/* Does it end the port or device (so that links have to leave it)? */
bool rt_verbs_event_is_fatal(enum ibv_event_type type);

/* "::ffff:10.0.0.1"; `text` is returned. */
const char *rt_verbs_gid_text(const unsigned char gid[16], char *text, size_t capacity);

/* "1024 bytes" of enum ibv_mtu; 0 of a wrong one. */
unsigned rt_verbs_mtu_bytes(unsigned mtu);

#endif
