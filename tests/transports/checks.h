/* The checks of the suite that live in files of their own. */
#ifndef RT_TEST_CHECKS_H
#define RT_TEST_CHECKS_H

#include "conformance.h"

/* traffic.c */
const char *check_random(struct pair *pair);
const char *check_threads(struct pair *pair);

/* gone.c: one end is closed, or never comes */
const char *check_sender_gone_idle(struct pair *pair);
const char *check_sender_gone_in_a_slice(struct pair *pair);
const char *check_sender_gone_early(struct pair *pair);
const char *check_receiver_gone_in_a_slice(struct pair *pair);
const char *check_receiver_gone_early(struct pair *pair);
const char *check_flushed(struct pair *pair);
const char *check_closing(struct pair *pair);

/* Sends slices of the largest size, all from `memory`, until no more is taken; *taken of them. */
const char *fill_link(struct pair *pair, const void *memory, uint64_t *taken);

#endif
