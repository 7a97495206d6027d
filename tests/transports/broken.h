/* A transport that is broken on purpose, around a sound one. The suite must refuse every kind, or it proves nothing. */
#ifndef RT_TEST_BROKEN_H
#define RT_TEST_BROKEN_H

#include "transports/transport.h"

enum broken_kind {
    BROKEN_NOT, /* only wrapped: must conform */
    BROKEN_DROPS, BROKEN_REORDERS, BROKEN_CORRUPTS, BROKEN_CHANGES_FRAME, BROKEN_COUNTS_EARLY, BROKEN_COUNTS_NEVER,
    BROKEN_NEVER_FULL, BROKEN_IGNORES_CALL, BROKEN_IGNORES_CAPACITY, BROKEN_WRITES_EARLY, BROKEN_WRITES_BEYOND,
    BROKEN_DELIVERS_ELSEWHERE, BROKEN_MOVES_HELD, BROKEN_RESERVES_ANEW, BROKEN_HIDES_LOSS, BROKEN_LEAKS_DESCRIPTOR,
    BROKEN_NEVER_FLUSHED, BROKEN_LOSES_EMPTY, BROKEN_TAKES_TOO_LARGE, BROKEN_WAKES_ALWAYS, BROKEN_NAMELESS,
    BROKEN_KINDS
};
extern const char *const broken_names[BROKEN_KINDS];

/* One at a time in a process. */
const struct rt_transport *broken_transport(const struct rt_transport *sound, enum broken_kind kind);

#endif
