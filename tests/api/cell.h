/* One cell of the matrix: one collective call with everything that was chosen for it, run and checked on one rank. */
#ifndef TEST_CELL_H
#define TEST_CELL_H

#include "ranks.h"

#define CELL_COUNTS 8

enum cell_fault { /* a wrong result made on purpose, to prove that the check sees it */
    CELL_NO_FAULT,
    CELL_FIRST_BIT,
    CELL_LAST_BIT,
    CELL_BEFORE, /* a byte in front of the output */
    CELL_AFTER,
    CELL_INPUT, /* the input, which must stay as it was */
    CELL_FAULTS
};

struct cell {
    uint32_t      collective, type, op; /* op: of numbers.h */
    size_t        count;
    uint32_t      root;
    bool          in_place;
    bool          with_request, shared_memory;
    uint32_t      shift; /* bytes by which buffers miss alignment */
    enum cell_fault fault;
};

extern const size_t cell_counts[CELL_COUNTS];

/* Every combination has a number below cell_total(); the details that are not combined follow from the number. */
uint64_t    cell_total(void);
struct cell cell_at(uint64_t number, uint32_t nranks);

enum cell_verdict { CELL_RIGHT, CELL_WRONG, CELL_REFUSED, CELL_BROKEN /* the communicator is no longer usable */ };

/* Collective. `why` gets a sentence unless the verdict is CELL_RIGHT. */
enum cell_verdict cell_run(struct rank *self, const struct cell *cell, char *why, size_t capacity);

void cell_text(const struct cell *cell, char *text, size_t capacity);

#endif
