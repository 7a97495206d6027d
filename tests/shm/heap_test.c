/* The node's heap: memory that ranks give out, find in each other, and give back. */
#include "shm/inside.h"
#include "world.h"
#include <sys/stat.h>

TEST(memory_is_zeroed_reachable_by_the_peer_and_zeroed_again_after_free)
{
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    unsigned char *memory = NULL, *again = NULL, *view;
    uint64_t offset = 0;
    CHECK_EQ(rt_node_alloc(world->node[0], 100000, (void **)&memory, &error), RINGTREE_OK);
    CHECK_EQ((uintptr_t)memory % 4096, 0);
    for (size_t i = 0; i < 100000; i++) CHECK(memory[i] == 0);
    memset(memory, 9, 100000);
    CHECK(rt_node_offset(world->node[0], memory + 50000, 50000, &offset));
    view = rt_node_map(world->node[1], offset, 50000);
    CHECK(view && view[0] == 9 && view[49999] == 9);
    view[1] = 10;
    CHECK_EQ(memory[50001], 10);
    CHECK(rt_node_map(world->node[1], offset, 100) == view);
    CHECK_EQ(rt_node_free(world->node[0], memory, &error), RINGTREE_OK);
    CHECK_EQ(rt_node_alloc(world->node[0], 90000, (void **)&again, &error), RINGTREE_OK);
    uint64_t second = 0;
    CHECK(rt_node_offset(world->node[0], again, 1, &second));
    CHECK_EQ(second, offset - 50000); /* the freed extent is used again */
    for (size_t i = 0; i < 90000; i++) CHECK(again[i] == 0);
    again[50000] = 3;
    CHECK_EQ(view[0], 3); /* the peer's old view shows the new owner's memory */
    standin_close(world);
}

TEST(freed_memory_goes_back_to_the_machine)
{
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    struct stat before, full, after;
    void *memory;
    fstat(world->node[0]->file.fd, &before);
    CHECK_EQ(rt_node_alloc(world->node[0], 20 << 20, &memory, &error), RINGTREE_OK);
    memset(memory, 1, 20 << 20);
    fstat(world->node[0]->file.fd, &full);
    CHECK(full.st_blocks - before.st_blocks >= (20 << 20) / 512);
    CHECK_EQ(rt_node_free(world->node[0], memory, &error), RINGTREE_OK);
    fstat(world->node[0]->file.fd, &after);
    CHECK(after.st_blocks - before.st_blocks < (1 << 20) / 512);
    standin_close(world);
}

TEST(foreign_inner_and_twice_freed_pointers_are_refused_with_a_sentence)
{
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    unsigned char *memory = NULL, *other = NULL;
    CHECK_EQ(rt_node_alloc(world->node[0], 10000, (void **)&memory, &error), RINGTREE_OK);
    CHECK_EQ(rt_node_alloc(world->node[1], 10000, (void **)&other, &error), RINGTREE_OK);
    CHECK(rt_node_owns(world->node[0], memory) && !rt_node_owns(world->node[0], memory + 1));
    CHECK(!rt_node_owns(world->node[0], other));
    CHECK(!rt_node_owns(world->node[0], &error) && !rt_node_owns(world->node[0], NULL));
    CHECK_EQ(rt_node_free(world->node[0], &error, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "from elsewhere");
    CHECK_EQ(rt_node_free(world->node[0], other, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(rt_node_free(world->node[0], memory + 4096, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "inside the memory");
    CHECK_EQ(rt_node_free(world->node[0], memory, &error), RINGTREE_OK);
    CHECK_EQ(rt_node_free(world->node[0], memory, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "freed already");
    standin_close(world);
}

TEST(offsets_are_of_live_memory_only_and_maps_of_given_out_memory_only)
{
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    unsigned char *memory = NULL;
    uint64_t offset = 0;
    CHECK_EQ(rt_node_alloc(world->node[0], 10000, (void **)&memory, &error), RINGTREE_OK);
    CHECK(rt_node_offset(world->node[0], memory, 10000, &offset));
    CHECK(rt_node_offset(world->node[0], memory + 10000, 0, &offset));
    CHECK(!rt_node_offset(world->node[0], memory, 10001, &offset));
    CHECK(!rt_node_offset(world->node[0], memory + 1, 10000, &offset));
    CHECK(!rt_node_offset(world->node[0], memory - 1, 1, &offset));
    CHECK(!rt_node_offset(world->node[0], memory, SIZE_MAX, &offset));
    CHECK(!rt_node_offset(world->node[1], memory, 1, &offset));
    CHECK(rt_node_offset(world->node[0], memory, 10000, &offset));
    const struct rt_node_layout *layout = &world->node[0]->file.layout;
    CHECK(rt_node_map(world->node[1], offset, 10000) != NULL);
    CHECK(rt_node_map(world->node[1], offset, 20 << 20) == NULL);
    CHECK(rt_node_map(world->node[1], layout->heap - 1, 1) == NULL);
    CHECK(rt_node_map(world->node[1], 0, 1) == NULL);
    CHECK(rt_node_map(world->node[1], layout->file_bytes, 1) == NULL);
    CHECK(rt_node_map(world->node[1], offset, SIZE_MAX) == NULL);
    CHECK(rt_node_map(world->node[1], UINT64_MAX, SIZE_MAX) == NULL);
    ((struct rt_node_header *)world->node[0]->file.base)->heap_used = UINT64_MAX; /* a peer gone mad */
    CHECK(rt_node_map(world->node[1], layout->file_bytes - 4096, 8192) == NULL);
    CHECK_EQ(rt_node_alloc(world->node[1], 1 << 20, (void **)&memory, &error), RINGTREE_NO_MEMORY);
    standin_close(world);
}

TEST(more_memory_than_the_machine_has_is_refused)
{
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    void *memory = &error;
    CHECK_EQ(rt_node_alloc(world->node[0], SIZE_MAX, &memory, &error), RINGTREE_NO_MEMORY);
    CHECK(memory == NULL);
    CHECK_EQ(rt_node_alloc(world->node[0], (size_t)500 << 30, &memory, &error), RINGTREE_NO_MEMORY);
    CHECK_HAS(error.text, "more than this machine's");
    CHECK_EQ(rt_node_alloc(world->node[0], 0, &memory, &error), RINGTREE_OK);
    CHECK(memory != NULL);
    CHECK_EQ(rt_node_free(world->node[0], memory, &error), RINGTREE_OK);
    standin_close(world);
}

struct block {
    unsigned char *memory;
    size_t         bytes;
    unsigned char  mark;
};

static bool block_whole(const struct block *block)
{
    return block->memory[0] == block->mark && block->memory[block->bytes - 1] == block->mark &&
           block->memory[block->bytes / 2] == block->mark;
}

static bool block_zero(const struct block *block)
{
    return !block->memory[0] && !block->memory[block->bytes - 1] && !block->memory[block->bytes / 2];
}

static void churn(struct standin *world, uint32_t rank, uint64_t random)
{
    struct block blocks[40] = { 0 };
    struct rt_error error = { 0 };
    for (uint32_t turn = 0; turn < 4000; turn++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        struct block *block = &blocks[(random >> 33) % 40];
        if (block->memory) {
            CHECK(block_whole(block));
            CHECK_EQ(rt_node_free(world->node[rank], block->memory, &error), RINGTREE_OK);
            block->memory = NULL;
            continue;
        }
        *block = (struct block){ NULL, 1 + (random >> 20) % (1 << ((random >> 50) % 21)),
                                 (unsigned char)(1 + turn % 255) };
        CHECK_EQ(rt_node_alloc(world->node[rank], block->bytes, (void **)&block->memory, &error), RINGTREE_OK);
        CHECK_THAT(block_zero(block), "turn %u: memory is not zero", turn);
        memset(block->memory, block->mark, block->bytes);
        CHECK(rt_node_offset(world->node[rank], block->memory, block->bytes, &(uint64_t){ 0 }));
    }
}

struct churner {
    struct standin *world;
    uint32_t        rank;
};

static void *churner_main(void *argument)
{
    struct churner *churner = argument;
    churn(churner->world, churner->rank, churner->rank + 5);
    return NULL;
}

TEST(random_allocations_of_two_ranks_never_overlap_and_reuse_space)
{
    struct standin *world = world_of(2);
    struct churner churner[2] = { { world, 0 }, { world, 1 } };
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, churner_main, &churner[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    const uint64_t used = ((struct rt_node_header *)world->node[0]->file.base)->heap_used;
    CHECK_THAT(used < UINT64_C(200) << 20, "%" PRIu64 " MiB of the heap", used >> 20);
    standin_close(world);
}

TEST_MAIN
