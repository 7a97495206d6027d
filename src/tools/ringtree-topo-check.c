/* check: the lints of topology/lint.h as lines; compare: two machines as sorted lines of what they have. */
#include "ringtree-topo.h"
#include "topology/lint.h"
#include <stdlib.h>
#include <string.h>

static void say(void *out, const char *sentence)
{
    fprintf(out, "warning: %s\n", sentence);
}

unsigned topo_check(const struct rt_graph *graph, FILE *out)
{
    struct rt_lint lint = { .say = say, .context = out };

    rt_lint_graph(&lint, graph);
    if (lint.count == 0)
        fputs("nothing found\n", out);
    return lint.count;
}

struct lines {
    char   **line;
    uint32_t count;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One line for each part and each link that is not to what the part is inside; assumed values say nothing. */
static char *all_lines(const struct rt_graph *g)
{
    char *text = NULL, part[128], other[128], link[40], rate[40];
    size_t length;
    FILE *out = open_memstream(&text, &length);

    for (uint32_t v = 1; out && v < g->nvertices; v++) {
        if (g->vertex[v].kind == RT_FABRIC)
            continue;
        const struct rt_edge *up = rt_edge_up(g, v);
        fprintf(out, "%s in %s", rt_vertex_text(g, v, part, sizeof(part)),
                rt_vertex_text(g, g->vertex[v].parent, other, sizeof(other)));
        if (up && up->gbs.source >= RT_KNOWN)
            fprintf(out, ", %s, %s", topo_link(up, link, sizeof(link)), topo_rate(&up->gbs, rate, sizeof(rate)));
        fputc('\n', out);
    }
    for (uint32_t i = 0; out && i < g->nedges; i++) {
        const struct rt_edge *e = &g->edge[i];
        if ((e->kind != RT_NVLINK && e->kind != RT_NETWORK) || (e->kind == RT_NETWORK && e->gbs.source < RT_KNOWN))
            continue;
        fprintf(out, "%s to %s: %s, %s\n", rt_vertex_text(g, e->a, part, sizeof(part)),
                rt_vertex_text(g, e->b, other, sizeof(other)), topo_link(e, link, sizeof(link)),
                topo_rate(&e->gbs, rate, sizeof(rate)));
    }
    if (out)
        fclose(out);
    return text;
}

static struct lines sort_lines(char *text)
{
    struct lines lines = { NULL, 0 };
    uint32_t most = 0;

    for (const char *c = text; *c; c++)
        most += *c == '\n';
    lines.line = calloc(most + (size_t)1, sizeof(*lines.line));
    for (char *next, *line = text; lines.line && *line; line = next) {
        next = strchr(line, '\n');
        *next++ = '\0';
        lines.line[lines.count++] = line;
    }
    if (lines.line)
        qsort(lines.line, lines.count, sizeof(*lines.line), by_text);
    return lines;
}

unsigned topo_compare(const struct rt_graph *a, const struct rt_graph *b, const char *name_a, const char *name_b,
                      FILE *out)
{
    char *text_a = all_lines(a), *text_b = all_lines(b);
    unsigned differences = 0;

    if (text_a && text_b) {
        struct lines one = sort_lines(text_a), two = sort_lines(text_b);
        fprintf(out, "--- %s\n+++ %s\n", name_a, name_b);
        for (uint32_t i = 0, k = 0; i < one.count || k < two.count;) {
            const int order = i == one.count ? 1 : k == two.count ? -1 : strcmp(one.line[i], two.line[k]);
            if (order < 0)
                fprintf(out, "- %s\n", one.line[i]);
            else if (order > 0)
                fprintf(out, "+ %s\n", two.line[k]);
            differences += order != 0;
            i += order <= 0;
            k += order >= 0;
        }
        free(one.line);
        free(two.line);
    }
    if (differences == 0)
        fputs("the machines are alike\n", out);
    free(text_a);
    free(text_b);
    return differences;
}
