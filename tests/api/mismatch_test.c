/* One of four ranks makes another call: all ranks fail within a second, with a sentence that names both calls. */
#include "ranks.h"
#include "test.h"

enum difference { OTHER_COLLECTIVE, OTHER_COUNT, OTHER_TYPE, OTHER_OP, OTHER_ROOT };

static ringtree_status call(struct rank *self, enum difference difference)
{
    static _Thread_local float in[4096], out[4096];
    ringtree_comm             *comm = self->comm;
    const bool                 odd = self->rank == 2;
    switch (difference) {
    case OTHER_COLLECTIVE:
        if (odd) return ringtree_broadcast(comm, in, out, 1000, RINGTREE_FLOAT32, 0, NULL);
        return ringtree_all_reduce(comm, in, out, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    case OTHER_COUNT: return ringtree_all_reduce(comm, in, out, odd ? 999 : 1000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    case OTHER_TYPE:
        return ringtree_all_reduce(comm, in, out, 1000, odd ? RINGTREE_INT32 : RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    case OTHER_OP:
        return ringtree_all_reduce(comm, in, out, 1000, RINGTREE_FLOAT32, odd ? RINGTREE_MAX : RINGTREE_SUM, NULL);
    default: return ringtree_broadcast(comm, in, out, 1000, RINGTREE_FLOAT32, odd ? 1 : 0, NULL);
    }
}

static const struct {
    const char *name, *ours, *theirs;
} words[] = {
    [OTHER_COLLECTIVE] = { "collective", "all_reduce", "broadcast" },
    [OTHER_COUNT] = { "count", "count 1000", "count 999" },
    [OTHER_TYPE] = { "type", "float32", "int32" },
    [OTHER_OP] = { "op", "sum", "max" },
    [OTHER_ROOT] = { "root", "root 0", "root 1" },
};

static void differ(struct rank *self)
{
    const enum difference difference = *(enum difference *)self->argument;
    float                 x = 1;
    CHECK_EQ(ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    ranks_meet(self);
    const uint64_t  began_ms = ranks_now_ms();
    ringtree_status status = call(self, difference);
    /* A rank whose part was done before it could know (a broadcast's root) learns it at its next call. */
    if (status == RINGTREE_OK) status = ringtree_barrier(self->comm, NULL);
    const uint64_t took_ms = ranks_now_ms() - began_ms;
    CHECK_THAT(status == RINGTREE_MISMATCH, "rank %u: %s, %s", self->rank, ringtree_status_name(status),
               ringtree_last_error(self->comm));
    CHECK_THAT(took_ms < 1000, "%s: rank %u learnt it after %llu ms", words[difference].name, self->rank,
               (unsigned long long)took_ms);
    CHECK_HAS(ringtree_last_error(self->comm), words[difference].ours);
    CHECK_HAS(ringtree_last_error(self->comm), words[difference].theirs);
    CHECK_HAS(ringtree_last_error(self->comm), "rank 2");
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_MISMATCH);
}

static void check_all(const char *transports, const char *algorithm, const char *direct)
{
    const char *const settings[] = { direct, NULL };
    for (enum difference d = OTHER_COLLECTIVE; d <= OTHER_ROOT; d++)
        RANKS(differ, .ranks = 4, .processes = 4, .transports = transports, .algorithm = algorithm,
              .settings = settings, .argument = &d, .wait_s = 40);
}

TEST(another_call_on_one_of_four_ranks_is_named_on_all_over_shared_memory)
{
    check_all("shm", NULL, "RINGTREE_DIRECT=1");
}

TEST(another_call_on_one_of_four_ranks_is_named_on_all_over_shared_memory_links)
{
    check_all("shm", NULL, "RINGTREE_DIRECT=0");
}

TEST(another_call_on_one_of_four_ranks_is_named_on_all_over_tcp)
{
    check_all("tcp", NULL, "RINGTREE_DIRECT=1");
}

/* Each rank is the root of its own broadcast: nobody receives, so no data can show the difference. */
static void all_roots(struct rank *self)
{
    ringtree_comm *part = NULL;
    float          in = 1, out = 0;
    CHECK_EQ(ringtree_split(self->comm, 0, self->rank, &part), RINGTREE_OK);
    ringtree_status status = ringtree_broadcast(part, &in, &out, 1, RINGTREE_FLOAT32, self->rank, NULL);
    const ringtree_status last = ringtree_destroy(part);
    CHECK(status == RINGTREE_OK || status == RINGTREE_MISMATCH);
    if (status == RINGTREE_OK) {
        CHECK_EQ(last, RINGTREE_MISMATCH);
        CHECK_HAS(ringtree_last_error(NULL), "broadcast");
        CHECK_HAS(ringtree_last_error(NULL), "root 0");
        CHECK_HAS(ringtree_last_error(NULL), "root 1");
    }
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
}

TEST(two_roots_of_one_broadcast_are_named_at_the_latest_when_the_communicator_ends)
{
    RANKS(all_roots, .ranks = 2, .processes = 2, .transports = "shm", .wait_s = 40);
    RANKS(all_roots, .ranks = 2, .processes = 2, .transports = "tcp", .wait_s = 40);
}

TEST_MAIN
