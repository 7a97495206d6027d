/* The machines of a communicator: each is told by one of its ranks, united on all, and never believed unchecked. */
#include "api/ranks.h"
#include "test.h"

#include "comm.h"
#include "topology/graph.h"

static const char *const with_nic[] = { "RINGTREE_TOPOLOGY=2 socket: 2 core; nic 100G", NULL };

static void sees_two_machines(struct rank *self)
{
    const struct rt_graph *g = NULL, *again = NULL;

    if (rt_comm_machines(self->comm, &g) != RINGTREE_OK) {
        TEST_FAIL("%s", ringtree_last_error(self->comm));
        return;
    }
    CHECK_EQ(g->nmachines, 2);
    CHECK(strcmp(rt_vertex_name(g, g->machine[0]), "pretended-a") == 0 &&
          strcmp(rt_vertex_name(g, g->machine[1]), "pretended-b") == 0);
    CHECK(strcmp(rt_attribute(g, g->machine[0], "ranks"), "0-2") == 0);
    CHECK(strcmp(rt_attribute(g, g->machine[1], "ranks"), "3-5") == 0);
    CHECK_EQ(rt_graph_count(g, RT_CORES), 8);
    CHECK_EQ(rt_graph_count(g, RT_PORT), 4);
    CHECK_EQ(rt_graph_count(g, RT_FABRIC), 1);
    CHECK(rt_comm_machines(self->comm, &again) == RINGTREE_OK && again == g);
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
}

TEST(all_ranks_get_the_machines_of_all)
{
    CHECK_EQ(RANKS(sees_two_machines, .ranks = 6, .processes = 6, .hosts = "aaabbb", .settings = with_nic), 0);
    CHECK_EQ(RANKS(sees_two_machines, .ranks = 6, .processes = 6, .hosts = "aaabbb", .settings = with_nic,
                   .transports = "tcp"), 0);
}

static void sees_itself(struct rank *self)
{
    const struct rt_graph *g = NULL;

    CHECK_THAT(rt_comm_machines(self->comm, &g) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    if (g) CHECK(g->nmachines == 1 && rt_graph_count(g, RT_CORES) >= 1);
    if (g) CHECK_HAS(rt_attribute(g, g->machine[0], "ranks"), self->size == 1 ? "0" : "0-1");
}

TEST(the_machine_that_is_there_is_seen_by_threads_and_by_one_alone)
{
    CHECK_EQ(RANKS(sees_itself, .ranks = 2), 0);
    CHECK_EQ(RANKS(sees_itself, .ranks = 1), 0);
}

static void is_refused(struct rank *self)
{
    const struct rt_graph *g = NULL;
    const ringtree_status status = rt_comm_machines(self->comm, &g);

    CHECK_THAT(status == RINGTREE_INVALID_SETTING, "%d", status);
    CHECK_HAS(ringtree_last_error(self->comm), self->rank == 0 ? (const char *)self->argument : "rank 0 (host ");
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK); /* nothing else is harmed */
}

TEST(a_wrong_description_is_an_error_of_all_and_harms_nothing_else)
{
    static const char *const wrong[] = { "RINGTREE_TOPOLOGY=2 gpx", NULL };
    static const char *const several[] = { "RINGTREE_TOPOLOGY=2 node: 2 core", NULL };

    CHECK_EQ(RANKS(is_refused, .ranks = 2, .settings = wrong,
                   .argument = "rank 0: RINGTREE_TOPOLOGY: column 3 of the machine"), 0);
    CHECK_EQ(RANKS(is_refused, .ranks = 2, .settings = several, .argument = "rank 0: RINGTREE_TOPOLOGY: these are 2"),
             0);
}

/* Rank 1, on a host of its own, tells what it likes; rank 0 is honest. */
struct lie {
    uint32_t    length, status;
    const char *bytes, *said;
};

static void lies(struct rank *self)
{
    const struct lie *lie = self->argument;
    const struct rt_graph *g = NULL;
    const struct { uint32_t length, status, teller; int32_t domain; } notice = { lie->length, lie->status, 1, 0 };
    uint32_t all[8];
    uint8_t *room = calloc(1, 1 << 20);

    if (self->rank == 0) {
        const ringtree_status status = rt_comm_machines(self->comm, &g);
        CHECK_THAT(status != RINGTREE_OK && !g, "%s", lie->said);
        CHECK_HAS(ringtree_last_error(self->comm), lie->said);
    } else {
        CHECK_EQ(ringtree_all_gather(self->comm, &notice, all, sizeof notice, RINGTREE_UINT8, NULL), RINGTREE_OK);
        if (lie->bytes) {
            const uint32_t honest = all[0];
            CHECK_EQ(ringtree_broadcast(self->comm, room, room, honest, RINGTREE_UINT8, 0, NULL), RINGTREE_OK);
            memcpy(room, lie->bytes, lie->length);
            CHECK_EQ(ringtree_broadcast(self->comm, room, room, lie->length, RINGTREE_UINT8, 1, NULL), RINGTREE_OK);
        }
    }
    free(room);
}

TEST(what_a_rank_says_of_its_machine_is_checked_and_the_error_names_it)
{
    static struct lie lie[] = {
        { 5, 0, "\1\1\2\3\4", "machine 1 by rank 1 (host pretended-b), 5 bytes, is damaged at byte" },
        { 1, 0, "\0", "machine 1 by rank 1 (host pretended-b), 1 bytes, is damaged at byte 1" },
        { 2u << 20, 0, NULL, "rank 1 (host pretended-b) says that its machine takes 2097152 bytes, over 1048576" },
        { 0, RINGTREE_UNSUPPORTED, NULL, "rank 1 (host pretended-b) could not describe its machine" },
    };

    for (size_t i = 0; i < sizeof lie / sizeof *lie; i++)
        CHECK_EQ(RANKS(lies, .ranks = 2, .processes = 2, .hosts = "ab", .settings = with_nic, .argument = &lie[i]), 0);
}

TEST_MAIN
