/*
 * Small calls like an earlier one take a way of their own, which must refuse what the long way refuses and give what it
 * gives: in place and not, with the arrays that a rank has no use for left out, roots in turn.
 */
#include "ranks.h"
#include "test.h"

#define COUNT 2

/* The blocks of `which` in this rank's arrays; 0: it has none there. */
struct blocks {
    uint32_t input, output, input_alias, output_alias; /* aliases: which block lies on the other array in place */
};

static struct blocks blocks_of(ringtree_collective which, uint32_t n, uint32_t me, uint32_t root)
{
    switch (which) {
    case RINGTREE_REDUCE: return (struct blocks){ 1, me == root, 0, 0 };
    case RINGTREE_BROADCAST: return (struct blocks){ me == root, 1, 0, 0 };
    case RINGTREE_REDUCE_SCATTER: return (struct blocks){ n, 1, me, 0 };
    case RINGTREE_ALL_GATHER: return (struct blocks){ 1, n, 0, me };
    case RINGTREE_ALL_TO_ALL: return (struct blocks){ n, n, 0, 0 };
    case RINGTREE_GATHER: return (struct blocks){ 1, me == root ? n : 0, 0, me };
    case RINGTREE_SCATTER: return (struct blocks){ me == root ? n : 0, 1, me, 0 };
    default: return (struct blocks){ 1, 1, 0, 0 };
    }
}

static ringtree_status call(ringtree_comm *comm, ringtree_collective which, const int32_t *in, int32_t *out,
                            ringtree_type type, uint32_t root)
{
    switch (which) {
    case RINGTREE_ALL_REDUCE: return ringtree_all_reduce(comm, in, out, COUNT, type, RINGTREE_SUM, NULL);
    case RINGTREE_REDUCE: return ringtree_reduce(comm, in, out, COUNT, type, RINGTREE_SUM, root, NULL);
    case RINGTREE_BROADCAST: return ringtree_broadcast(comm, in, out, COUNT, type, root, NULL);
    case RINGTREE_REDUCE_SCATTER: return ringtree_reduce_scatter(comm, in, out, COUNT, type, RINGTREE_SUM, NULL);
    case RINGTREE_ALL_GATHER: return ringtree_all_gather(comm, in, out, COUNT, type, NULL);
    case RINGTREE_ALL_TO_ALL: return ringtree_all_to_all(comm, in, out, COUNT, type, NULL);
    case RINGTREE_GATHER: return ringtree_gather(comm, in, out, COUNT, type, root, NULL);
    case RINGTREE_SCATTER: return ringtree_scatter(comm, in, out, COUNT, type, root, NULL);
    default: return ringtree_barrier(comm, NULL);
    }
}

/* Element i of rank r's input in round `round`. */
static int32_t given(uint32_t r, uint32_t i, uint32_t round)
{
    return (int32_t)(1000 * round + 100 * r + i);
}

static int32_t expected(ringtree_collective which, uint32_t n, uint32_t me, uint32_t root, uint32_t i, uint32_t round)
{
    int32_t sum = 0;
    const uint32_t from = which == RINGTREE_REDUCE_SCATTER ? me * COUNT : 0;
    for (uint32_t r = 0; r < n; r++) sum += given(r, from + i, round);
    switch (which) {
    case RINGTREE_BROADCAST: return given(root, i, round);
    case RINGTREE_ALL_GATHER:
    case RINGTREE_GATHER: return given(i / COUNT, i % COUNT, round);
    case RINGTREE_ALL_TO_ALL: return given(i / COUNT, me * COUNT + i % COUNT, round);
    case RINGTREE_SCATTER: return given(root, me * COUNT + i, round);
    default: return sum;
    }
}

#define REFUSED(given_status)                                                                                          \
    CHECK_THAT((given_status) == RINGTREE_INVALID_ARGUMENT, "%s from rank %u: %s", ringtree_collective_name(which),    \
               self->rank, ringtree_last_error(self->comm))

/* What no rank may ask for is refused where it is asked, and no other rank notices. */
static void misuse(struct rank *self, ringtree_collective which, uint32_t root, int32_t *in, int32_t *out)
{
    const struct blocks b = blocks_of(which, self->size, self->rank, root);
    if (which == RINGTREE_BARRIER) return;
    if (b.input) REFUSED(call(self->comm, which, NULL, out, RINGTREE_INT32, root));
    if (b.output) REFUSED(call(self->comm, which, in, NULL, RINGTREE_INT32, root));
    REFUSED(call(self->comm, which, in, out, (ringtree_type)99, root));
    const bool rooted = which == RINGTREE_REDUCE || which == RINGTREE_BROADCAST || which == RINGTREE_GATHER ||
                        which == RINGTREE_SCATTER;
    if (rooted) REFUSED(call(self->comm, which, in, out, RINGTREE_INT32, self->size));
    if (rooted) REFUSED(call(self->comm, which, in, out, RINGTREE_INT32, UINT32_MAX));
    if (!b.input || !b.output) return;
    REFUSED(call(self->comm, which, in, in + b.input * COUNT - 1, RINGTREE_INT32, root));
    REFUSED(call(self->comm, which, out + b.output * COUNT - 1, out, RINGTREE_INT32, root));
}

/* how: 0 apart, 1 in place, 2 apart and without what this rank has no use for */
static void use(struct rank *self, ringtree_collective which, uint32_t root, uint32_t round, uint32_t how)
{
    int32_t memory[4][COUNT * 8];
    const uint32_t n = self->size;
    const struct blocks b = blocks_of(which, n, self->rank, root);
    int32_t *in = memory[1], *out = memory[2];
    if (how == 1 && b.input && b.output) {
        if (b.input_alias) out = in + b.input_alias * COUNT;
        else in = out + b.output_alias * COUNT;
    }
    for (uint32_t i = 0; i < b.input * COUNT; i++) in[i] = given(self->rank, i, round);
    const ringtree_status status = call(self->comm, which, how == 2 && !b.input ? NULL : in,
                                        how == 2 && !b.output ? NULL : out, RINGTREE_INT32, root);
    CHECK_THAT(status == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    for (uint32_t i = 0; which != RINGTREE_BARRIER && i < b.output * COUNT; i++)
        CHECK_THAT(out[i] == expected(which, n, self->rank, root, i, round), "%s, root %u, %u: element %u is %d",
                   ringtree_collective_name(which), root, how, i, out[i]);
    if (round % 5 == 3) misuse(self, which, root, memory[1], memory[2]);
}

static void again(struct rank *self)
{
    for (uint32_t round = 0; round < 40; round++)
        for (uint32_t which = RINGTREE_ALL_REDUCE; which <= RINGTREE_BARRIER; which++)
            use(self, (ringtree_collective)which, round / 2 % self->size, round, round % 3);
}

TEST(calls_like_earlier_ones_are_checked_like_them_and_give_what_they_gave)
{
    for (uint32_t n = 2; n <= 4; n++) RANKS(again, .ranks = n, .processes = n);
    RANKS(again, .ranks = 3);
}

TEST(so_are_those_that_go_over_links)
{
    RANKS(again, .ranks = 2, .processes = 2, .transports = "tcp");
    RANKS(again, .ranks = 3, .processes = 3, .transports = "tcp");
}

TEST_MAIN
