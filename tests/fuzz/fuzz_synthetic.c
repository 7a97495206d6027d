/* Any bytes as a machine in words: a graph, of as many parts as the words say, or one sentence with its column. */
#include "topology/nccl.h"
#include "topology/synthetic.h"
#include "topology/synthetic_parse.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Parts that a list stands for; large ones are only read, not built. */
static uint64_t count_parts(const struct rt_synthetic *s, uint8_t first)
{
    uint64_t parts = 0;

    for (uint8_t i = first; i != RT_SYNTHETIC_NONE; i = s->item[i].next) {
        parts += s->item[i].count * (1 + count_parts(s, s->item[i].inside));
        if (parts > 10000)
            return 10001;
    }
    return parts;
}

static void check(const char *text)
{
    static struct rt_synthetic synthetic;
    struct rt_graph *graph;
    struct rt_error error;
    ringtree_status status = rt_synthetic_parse(&synthetic, text, &error);

    if (status == RINGTREE_OK && count_parts(&synthetic, 0) > 10000)
        return;
    if (rt_synthetic_read(&graph, text, &error) == RINGTREE_OK) {
        FILE *out = fopen("/dev/null", "w");
        if (status != RINGTREE_OK || graph->nmachines == 0 || !out || !rt_nccl_write(graph, graph->machine[0], out))
            abort();
        fclose(out);
        rt_graph_free(graph);
    } else if (error.status != RINGTREE_INVALID_ARGUMENT || error.text[0] == '\0') {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check(text);
    free(text);
    return 0;
}
