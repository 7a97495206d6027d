/* Slices through trouble: all must come, whole and in order, or the sentence says why not. */
#ifndef RT_TEST_THROUGH_H
#define RT_TEST_THROUGH_H

#include "transports/conformance.h"

/* So many slices, short and long; `trouble` strikes when half of them were given to the link, some still under way. */
const char *through(struct pair *pair, void (*trouble)(struct pair *pair), uint64_t slices);

#endif
