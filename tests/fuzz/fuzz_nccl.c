/*
 * Any bytes as NCCL's topology XML: a graph that can be searched, and that is the same after it was written and read
 * again, or one clear sentence. What follows a zero byte is then read as the rings of that machine.
 */
#include "topology/lint.h"
#include "topology/nccl.h"
#include "topology/search.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refused(ringtree_status status, const struct rt_error *error)
{
    const size_t length = strnlen(error->text, RT_ERROR_TEXT);

    if (status != RINGTREE_INVALID_ARGUMENT || error->status != status || length == RT_ERROR_TEXT)
        abort();
    if (strncmp(error->text, "fuzz", 4) != 0)
        abort();
}

static void check_written(const struct rt_graph *graph)
{
    char *text = NULL;
    size_t length;
    struct rt_graph *again;
    struct rt_error error;
    FILE *out = open_memstream(&text, &length);

    if (!out || !rt_nccl_write(graph, graph->machine[0], out) || fclose(out) != 0)
        abort();
    if (rt_nccl_read(&again, text, length, "written", &error) != RINGTREE_OK)
        abort();
    if (graph->nmachines == 1 && rt_graph_count(again, RT_GPU) != rt_graph_count(graph, RT_GPU))
        abort();
    rt_graph_free(again);
    free(text);
}

static void check_rings(const struct rt_graph *graph, const char *text, size_t length)
{
    struct rt_search *search;
    struct rt_error error;

    if (rt_search(&search, graph, &error) != RINGTREE_OK)
        return;
    if (!(search->gbs > 0) || search->nchannels == 0 || search->nchannels > RT_MOST_CHANNELS)
        abort();
    if (length > 0) {
        const ringtree_status status = rt_rings_read(search, 0, text, length, "fuzz", &error);
        if (status != RINGTREE_OK)
            check_refused(status, &error);
    }
    rt_search_free(search);
}

static void ignore(void *context, const char *sentence)
{
    (void)context, (void)sentence;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    const size_t length = zero ? (size_t)(zero - data) : size;
    struct rt_graph *graph;
    struct rt_error error;
    const ringtree_status status = rt_nccl_read(&graph, (const char *)data, length, "fuzz", &error);

    if (status != RINGTREE_OK) {
        check_refused(status, &error);
        return 0;
    }
    rt_lint_graph(&(struct rt_lint){ .say = ignore }, graph);
    check_written(graph);
    if (graph->nvertices < 60) /* larger ones take the search too long to try many */
        check_rings(graph, zero ? (const char *)zero + 1 : "", zero ? size - length - 1 : 0);
    rt_graph_free(graph);
    return 0;
}
