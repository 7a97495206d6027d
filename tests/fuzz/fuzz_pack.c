/*
 * Any bytes as what other ranks say of their machines: one sentence, or a graph that can be searched and looked over,
 * and that is the same again when it is packed and read once more.
 */
#include "topology/lint.h"
#include "topology/pack.h"
#include "topology/search.h"
#include <stdlib.h>
#include <string.h>

#define MOST_SEARCHED 50 /* vertices */
#define SEARCHED_ONCE 32 /* of so many sizes of input: a search may take a second where all else is 0.1 ms */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear(void *context, const char *sentence)
{
    (void)context;
    if (!*sentence)
        abort();
}

static struct rt_packed pack(const struct rt_graph *graph, uint32_t machine)
{
    struct rt_packed packed = { NULL, 0, 0, "host" };
    uint8_t *bytes;
    struct rt_error error;

    if (rt_graph_pack(graph, machine, &bytes, &packed.length, &error) != RINGTREE_OK)
        abort();
    packed.bytes = bytes;
    return packed;
}

static void check_again(const struct rt_graph *graph)
{
    const struct rt_packed packed = pack(graph, graph->machine[0]);
    struct rt_graph *read;
    struct rt_error error;

    if (rt_graph_unite(&read, &packed, 1, &error) != RINGTREE_OK)
        abort();
    const struct rt_packed again = pack(read, read->machine[0]);
    if (again.length != packed.length || memcmp(again.bytes, packed.bytes, packed.length) != 0)
        abort();
    rt_graph_free(read);
    free((void *)packed.bytes);
    free((void *)again.bytes);
}

static void use(const struct rt_graph *graph, bool searched)
{
    struct rt_lint lint = { .say = hear };
    struct rt_search *search;
    struct rt_error error;

    rt_lint_graph(&lint, graph);
    if (searched && graph->nvertices <= MOST_SEARCHED && rt_search(&search, graph, &error) == RINGTREE_OK)
        rt_search_free(search);
}

/* The first byte says where the second machine begins, in 256ths; 0: there is one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const size_t cut = data[0] ? (size - 1) * data[0] / 256 : size - 1;
    const struct rt_packed machines[] = { { data + 1, cut, 0, "one" }, { data + 1 + cut, size - 1 - cut, 1, "two" } };
    struct rt_graph *graph;
    struct rt_error error;

    if (rt_graph_unite(&graph, machines, data[0] ? 2 : 1, &error) == RINGTREE_OK) {
        check_again(graph);
        use(graph, size % SEARCHED_ONCE == 0);
        rt_graph_free(graph);
    } else if (error.status != RINGTREE_INVALID_ARGUMENT || error.text[0] == '\0') {
        abort();
    }
    return 0;
}
