/*
 * What each way of a collective costs: pure functions of a table of constants, of where the ranks are, and of a size.
 *
 * A way (an algorithm, or the direct paths of shared memory) is some work: messages one after another, messages and
 * bytes of the busiest rank, of all ranks of the busiest node, and between nodes. Its time is
 *
 *     rounds * latency + the longest of (busiest rank, cores of the node, wire of the node and what is added after it)
 *
 * times a correction that was fitted for that way, kind of link, number of ranks and size. All of it is plain
 * arithmetic, no libm, no contraction, so ranks with equal tables get equal bits and thus equal plans.
 */
#ifndef RT_COST_H
#define RT_COST_H

#include "algorithms/step.h"
#include <stddef.h>

enum rt_link_kind {
    RT_LINK_SHM,      /* memory shared by ranks near each other */
    RT_LINK_SHM_FAR,  /* the same between NUMA domains or packages */
    RT_LINK_LOOPBACK, /* TCP within a machine */
    RT_LINK_NETWORK,  /* TCP between machines */
    RT_LINK_KINDS
};

struct rt_link_cost {
    double latency;   /* s: from a small send to its arrival, both ranks waiting for it */
    double message;   /* s of a core for each further message, sender and receiver together */
    double byte;      /* s of a core for each byte, sender and receiver together */
    double wire_byte; /* s of the node's network card for each byte; 0: there is none */
    double crowded;   /* s more for a round where ranks share cores: the scheduler must change them */
    double flow_byte; /* s for each byte over one connection, where that is narrower than the link; else 0 */
};

/* The direct paths: all ranks read each other's memory. */
struct rt_exchange_cost {
    double latency; /* s: an exchange of two ranks */
    double rank;    /* s for each further rank */
    double block;   /* s for each block that goes through a cell, per rank */
    double byte;    /* s of a core for a byte copied or added from a cache */
    double memory;  /* s more for a byte that comes from memory, all ranks together */
    double cache;   /* bytes: arrays of all ranks beyond this come from memory */
    double read;    /* s of a core for a byte read from another process */
    double crowded; /* s more for a meeting where ranks share cores */
};

#define RT_COST_RANKS 3 /* corrections for 2, 4 and 8 ranks; between them by the logarithm */
#define RT_COST_SIZES 9 /* for 8 B, 64 B, 512 B, ... 128 MiB */
#define RT_COST_WAYS  64 /* algorithms in the order of the registry, then the direct paths; see rt_cost_way() */

enum rt_cost_case {
    RT_COST_SHM,
    RT_COST_TCP,     /* within a machine */
    RT_COST_NETWORK, /* between machines; in the built-in table all are 1 */
    RT_COST_CASES
};

/* What the short measurement at the start (calibrate.h) found of a link. latency 0: nothing. */
struct rt_link_measured {
    double latency; /* s */
    double byte;    /* s for a byte of a long message, one way */
};

struct rt_costs {
    struct rt_link_measured reference[RT_LINK_KINDS]; /* on the machine whose table this is */
    struct rt_link_cost     link[RT_LINK_KINDS];
    struct rt_exchange_cost exchange;
    double                  add; /* s of a core for each byte added while it is received */
    float                   correction[RT_COST_CASES][RT_COST_WAYS][RT_COST_RANKS][RT_COST_SIZES];
};

/* Of the machine that ringtree was developed on: what is used until something was measured. */
void rt_costs_built_in(struct rt_costs *costs);
/* All corrections become 1. */
void rt_costs_uncorrect(struct rt_costs *costs);

/*
 * Changes the costs of a kind of link as far as it differs from the machine whose table this is; where that has no
 * reference, to what was measured. Ratios are rounded to half powers of two, and to 1
 * within half a power of a reference, so that noise changes no plan.
 */
void rt_costs_adapt(struct rt_costs *costs, enum rt_link_kind kind, const struct rt_link_measured *measured);

/* One connection was measured to take so many times as long for a byte as several take together; 1: it does not. */
void rt_costs_narrow(struct rt_costs *costs, enum rt_link_kind kind, double ratio);

/* Where the ranks are. Equal on all ranks. */
struct rt_sites {
    uint32_t ranks, nodes; /* nodes: that share memory */
    uint32_t local;        /* ranks of the largest node */
    uint32_t crossing;     /* ring neighbours that are on different nodes, at the busiest node */
    bool     blocked;      /* each node's ranks are consecutive */
    uint32_t crowd, cores; /* ranks of the most crowded machine, and its cores */
    uint8_t  inside, between; /* enum rt_link_kind */
    bool     direct;       /* all ranks share memory and may use the direct paths */
    uint32_t connections;  /* of a link between nodes; slices over RT_COST_SPREAD are cut over them. 0: one */
};
#define RT_COST_SPREAD           (64 << 10) /* as RT_TCP_STRIPE_LEAST */
#define RT_COST_MOST_CONNECTIONS 16

/* node_of[ranks] as in struct rt_layout. crowd and cores are those of a machine per node until the caller says more. */
struct rt_sites rt_sites_of(uint32_t ranks, const uint32_t *node_of);

enum rt_dominant { RT_COST_LATENCY, RT_COST_RANK, RT_COST_CORES, RT_COST_WIRE };

struct rt_prediction {
    double   seconds;
    double   rounds;     /* messages one after another */
    double   bytes;      /* through the busiest rank, one way */
    size_t   slice;      /* of the least time; 0: the algorithm does not gain from slices, whole slots */
    uint8_t  dominant;   /* enum rt_dominant: the largest part */
    uint32_t connections; /* that a slice is cut over */
    double   correction; /* that seconds contain */
};

/* `algorithm` NULL: the direct paths. bytes as the caller counts them: the array, or one block of it.
 * slot: the most that a slice can have. slice: forced, or 0. */
void rt_cost_predict(const struct rt_costs *costs, const struct rt_sites *sites, ringtree_collective collective,
                     const struct rt_algorithm *algorithm, size_t bytes, size_t slot, size_t slice,
                     struct rt_prediction *prediction);

/*
 * Whether a way that comes later in the list of algorithms, the less simple one, is taken instead of an earlier one.
 * Predictions are off by more than this margin: where the wire is all that counts, trees over several connections were
 * predicted to be 0.2 % faster, and took 35 % longer.
 */
static inline bool rt_cost_beats(double seconds, double least)
{
    return seconds < 0.95 * least;
}

/*
 * How many connections a link between nodes should have: 1, 2, 4, ... by the least predicted time of a large array,
 * since they are opened once and shorter slices take only the first. *seconds, unless NULL: what was predicted for each
 * of the RT_COST_SPREADS numbers.
 */
#define RT_COST_SPREADS 5
uint32_t rt_cost_connections(const struct rt_costs *costs, const struct rt_sites *sites, size_t slot,
                             double seconds[RT_COST_SPREADS]);

/* The row of `correction`; RT_COST_WAYS where the table has none. */
uint32_t rt_cost_way(ringtree_collective collective, const struct rt_algorithm *algorithm);
/* Changes the corrections around that size and number of ranks by `factor`, within bounds. */
void rt_cost_correct(struct rt_costs *costs, const struct rt_sites *sites, uint32_t way, size_t bytes, double factor);
/* The correction in force, and where it stands in the table: for fitting. */
double rt_cost_correction(const struct rt_costs *costs, const struct rt_sites *sites, uint32_t way, size_t bytes);

/* By which corrections ranks at these places go. */
enum rt_cost_case rt_cost_case_of(const struct rt_sites *sites);
const char *rt_cost_case_name(enum rt_cost_case which); /* "shm", "tcp", "network" */

const char *rt_link_kind_name(enum rt_link_kind kind); /* "shm", "shm-far", "loopback", "network" */
const char *rt_dominant_name(enum rt_dominant dominant); /* "latency", "the busiest rank", "cores", "the wire" */

/* ---- within the folder */

/* Messages and bytes; *_all: of all ranks of the busiest node together. */
struct rt_work {
    double inside, between;        /* messages one after another, within and between nodes */
    double messages, messages_all; /* sent, each counted once with its receipt */
    double bytes, bytes_all;
    double added, added_all;       /* bytes added or copied beside */
    double wire;                   /* bytes that leave the busiest node, or come to it */
    double wire_messages;          /* the part of messages_all that goes between nodes */
    double chunk;                  /* bytes that the engine cuts into slices, */
    uint32_t span;                 /* of which a message has so many, each slice in turn */
    double hops;                   /* > 0: slices follow one another along this many messages */
};

/* false: no such algorithm is known, and the estimate is a general one of its collective. */
bool rt_work_of(const struct rt_sites *sites, ringtree_collective collective, const char *algorithm, double bytes,
                struct rt_work *work);

uint32_t rt_cost_log2_up(uint32_t n);

#endif
