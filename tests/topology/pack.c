/* Machines as bytes: what is packed is united as it was, small, and damage is refused and never believed. */
#include "test.h"
#include "topology/pack.h"
#include "topology/search.h"
#include "topology/synthetic.h"

static struct rt_error error;

static struct rt_graph *machine(const char *text)
{
    struct rt_graph *g;

    CHECK_THAT(rt_synthetic_read(&g, text, &error) == RINGTREE_OK, "%s", error.text);
    return g;
}

static struct rt_packed pack(const struct rt_graph *g)
{
    struct rt_packed packed = { NULL, 0 };
    uint8_t *bytes = NULL;

    CHECK_THAT(rt_graph_pack(g, g->machine[0], &bytes, &packed.length, &error) == RINGTREE_OK, "%s", error.text);
    packed.bytes = bytes;
    return packed;
}

static const char text[] = "2 socket: 2 pci pcie:4x16: 2 gpu pcie:4x16 nvlink:12 switch sm:80; 2 nic 200G pcie:4x16";

TEST(two_machines_are_united_as_if_they_had_been_described_together)
{
    struct rt_graph *one = machine(text), *two = NULL, *wanted;
    char both[256];

    rt_graph_attribute(one, one->machine[0], "kernel", "6.1");
    const struct rt_packed packed = pack(one), pair[] = { packed, packed };
    snprintf(both, sizeof(both), "2 node: %s", text);
    wanted = machine(both);
    CHECK_THAT(rt_graph_unite(&two, pair, 2, &error) == RINGTREE_OK, "%s", error.text);
    if (two) {
        struct rt_search *a, *b;
        CHECK_EQ(two->nvertices, wanted->nvertices);
        CHECK_EQ(two->nedges, wanted->nedges);
        CHECK(strcmp(rt_attribute(two, two->machine[1], "kernel"), "6.1") == 0);
        CHECK_EQ(rt_search(&a, two, &error), RINGTREE_OK);
        CHECK_EQ(rt_search(&b, wanted, &error), RINGTREE_OK);
        CHECK(a->nchannels == b->nchannels && a->gbs == b->gbs && a->nrings == 1);
        rt_search_free(a);
        rt_search_free(b);
    }
    CHECK_THAT(packed.length < 40 * one->nvertices, "%zu bytes for %u parts", packed.length, one->nvertices);
    free((void *)packed.bytes);
    rt_graph_free(one);
    rt_graph_free(two);
    rt_graph_free(wanted);
}

TEST(bytes_that_are_cut_or_changed_are_refused_or_another_machine_and_nothing_else)
{
    struct rt_graph *one = machine(text), *g;
    const struct rt_packed packed = pack(one);
    uint8_t *bytes = malloc(packed.length);
    unsigned refused = 0;

    for (size_t length = 0; length < packed.length; length++) {
        CHECK_EQ(rt_graph_unite(&g, &(struct rt_packed){ packed.bytes, length }, 1, &error), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(error.text, "damaged at byte");
    }
    for (size_t at = 0; at < packed.length && bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, packed.bytes, packed.length);
            bytes[at] ^= (uint8_t)(1 << bit);
            const ringtree_status status = rt_graph_unite(&g, &(struct rt_packed){ bytes, packed.length }, 1, &error);
            CHECK_THAT(status == RINGTREE_OK || status == RINGTREE_INVALID_ARGUMENT, "%s", error.text);
            refused += status != RINGTREE_OK;
            rt_graph_free(g);
        }
    CHECK_THAT(refused > packed.length, "%u", refused);
    free(bytes);
    free((void *)packed.bytes);
    rt_graph_free(one);
}

TEST_MAIN
