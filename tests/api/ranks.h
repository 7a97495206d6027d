/*
 * Ranks for a test: as threads of one process, as processes, or several of each. The test program itself stays without
 * threads and only forks, so each run begins in a clean process and a rank may be killed.
 */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <ringtree/ringtree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef RANKS_MOST
#define RANKS_MOST  16
#endif
#define RANKS_NOTES (64 << 10)

/* Memory that all ranks of a run share, zeroed at its start. */
struct ranks_shared {
    ringtree_id  id;
    atomic_int   id_ready; /* 1 made, -1 could not be made */
    atomic_uint  arrived;  /* ranks_meet() */
    atomic_ullong note[RANKS_MOST]; /* for the body */
    char         text[RANKS_NOTES];  /* for the body */
};

struct rank { /* what a body gets */
    ringtree_comm       *comm; /* NULL when the layout is bare */
    uint32_t             rank, size, process;
    void                *argument;
    struct ranks_shared *shared;
    uint32_t             meetings;
};

struct ranks_layout {
    uint32_t           ranks;
    uint32_t           processes;  /* 0: ranks are threads of one. Else rank r is in process r * processes / ranks */
    const char        *hosts;      /* hosts[p]: pretended host of process p; NULL: none pretended */
    const char        *transports; /* RINGTREE_TRANSPORTS, or NULL */
    const char        *algorithm;  /* RINGTREE_ALGORITHM, or NULL */
    const char *const *settings;   /* more of them, "NAME=value", ended by NULL; or NULL */
    uint32_t           timeout_ms; /* of the communicator; 0: 30 s */
    uint32_t           wait_s;     /* after which all is killed and the run has failed; 0: 60 */
    bool               bare;       /* the body joins by itself */
    bool               may_die[RANKS_MOST]; /* this process is meant to end by SIGKILL */
    void              *argument;
};

/* Runs `body` on every rank. Returns how many processes failed: a bad exit, a signal, a hang, or a counted failure. */
uint32_t ranks_run(const struct ranks_layout *layout, void (*body)(struct rank *), atomic_int *failures);
/* RANKS(body, .ranks = 2, .transports = "tcp"): as part of a TEST. */
#define RANKS(body, ...) ranks_run(&((struct ranks_layout){ __VA_ARGS__ }), body, &test_failures)

/* Every rank of the run has come here; for order in tests, without ringtree. */
void ranks_meet(struct rank *self);

/* How an all_reduce of 1000 float32 would go now. */
const char *rank_chosen_way(const struct rank *self);

uint64_t ranks_now_ms(void);
void     ranks_sleep_ms(uint32_t ms);

#endif
