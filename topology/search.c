/*
 * The search over all machines: seats and ports of each, one search for all that are alike, rings through all of
 * them.
 */
#include "rings.h"
#include <stdlib.h>
#include <string.h>

struct machines { /* of a graph: vertices of machine m are vertex[from[m]] .. vertex[from[m + 1]], ascending */
    uint32_t *vertex, *from, *local, *index; /* local: vertex -> part; index: vertex -> machine */
    bool     *chosen;                        /* the seats, by vertex; NULL: as seat_kind() says */
};

static void close_machines(struct machines *m)
{
    free(m->vertex);
    free(m->from);
    free(m->local);
    free(m->index);
    free(m->chosen);
}

static bool open_machines(struct machines *m, const struct rt_graph *g)
{
    m->vertex = calloc(g->nvertices + (size_t)1, sizeof(*m->vertex));
    m->from = calloc(g->nmachines + (size_t)2, sizeof(*m->from));
    m->local = calloc(g->nvertices + (size_t)1, sizeof(*m->local));
    m->index = calloc(g->nvertices + (size_t)1, sizeof(*m->index));
    if (!m->vertex || !m->from || !m->local || !m->index)
        return false;
    for (uint32_t i = 0; i < g->nmachines; i++)
        m->index[g->machine[i]] = i;
    for (uint32_t v = 0; v < g->nvertices; v++)
        if (g->vertex[v].machine != RT_NO_VERTEX)
            m->from[m->index[g->vertex[v].machine] + 2]++;
    for (uint32_t i = 2; i < g->nmachines + 2; i++)
        m->from[i] += m->from[i - 1];
    for (uint32_t v = 0; v < g->nvertices; v++) {
        if (g->vertex[v].machine == RT_NO_VERTEX)
            continue;
        const uint32_t i = m->index[g->vertex[v].machine];
        m->local[v] = m->from[i + 1] - m->from[i];
        m->vertex[m->from[i + 1]++] = v;
    }
    return true;
}

/* Ranks live on GPUs; without them on groups of cores; else one on every NUMA domain, package or machine. */
static enum rt_vertex_kind seat_kind(const struct rt_graph *g, const uint32_t *vertex, uint32_t n)
{
    static const enum rt_vertex_kind order[] = { RT_GPU, RT_CORES, RT_NUMA, RT_PACKAGE, RT_MACHINE };
    bool there[RT_VERTEX_KINDS] = { false };
    uint32_t i = 0;

    for (uint32_t p = 0; p < n; p++)
        there[g->vertex[vertex[p]].kind] = true;
    while (!there[order[i]])
        i++;
    return order[i];
}

static ringtree_status list_machine(struct rt_search *s, const struct machines *m, uint32_t machine,
                                    struct rt_error *error)
{
    const struct rt_graph *g = s->graph;
    const uint32_t *vertex = m->vertex + m->from[machine], n = m->from[machine + 1] - m->from[machine];
    const enum rt_vertex_kind kind = m->chosen ? RT_VERTEX_KINDS : seat_kind(g, vertex, n);

    s->seat_from[machine] = s->nseats;
    s->port_from[machine] = s->nports;
    for (uint32_t p = 0; p < n; p++) {
        if (m->chosen ? m->chosen[vertex[p]] : g->vertex[vertex[p]].kind == kind)
            s->seat[s->nseats++] = vertex[p];
        if (g->vertex[vertex[p]].kind == RT_PORT)
            s->port[s->nports++] = vertex[p];
    }
    const uint32_t seats = s->nseats - s->seat_from[machine], ports = s->nports - s->port_from[machine];
    if (seats == 0)
        return rt_fail(error, RINGTREE_UNSUPPORTED, "no rank lives on machine %u of %u", machine, g->nmachines);
    if (seats > RT_MOST_SEATS || ports > RT_MOST_PORTS)
        return rt_fail(error, RINGTREE_UNSUPPORTED,
                       "machine %u has %u places for ranks and %u ports; rings are searched "
                       "among at most %u and %u", machine, seats, ports, RT_MOST_SEATS, RT_MOST_PORTS);
    if (ports == 0 && g->nmachines > 1)
        return rt_fail(error, RINGTREE_UNSUPPORTED, "machine %u of %u has no network port", machine, g->nmachines);
    return RINGTREE_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Machines with the same print are searched once: same parts in the same order, same links. */
static uint64_t fingerprint(const struct rt_graph *g, const struct machines *m, uint32_t machine)
{
    uint64_t hash = m->from[machine + 1] - m->from[machine];

    for (uint32_t p = m->from[machine]; p < m->from[machine + 1]; p++) {
        const uint32_t v = m->vertex[p];
        hash = mix(hash, g->vertex[v].kind | (m->chosen && m->chosen[v] ? 0x100u : 0));
        hash = mix(hash, g->vertex[v].kind == RT_MACHINE ? 0 : m->local[g->vertex[v].parent]);
        for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++) {
            const struct rt_edge *e = &g->edge[g->edge_of[i]];
            uint32_t bits;
            memcpy(&bits, &e->gbs.value, sizeof(bits));
            hash = mix(hash, (uint64_t)bits << 8 | e->kind);
            hash = mix(hash, e->kind == RT_NETWORK ? 0 : m->local[rt_edge_other(e, v)]);
        }
    }
    return hash;
}

static ringtree_status search_machine(struct rt_search *s, const struct machines *m, uint32_t machine,
                                      struct rt_error *error)
{
    struct rt_site site;
    const uint32_t seats = s->seat_from[machine], ports = s->port_from[machine];
    ringtree_status status;

    if (rt_site_open(&site, s->graph, m->vertex + m->from[machine], m->from[machine + 1] - m->from[machine], m->local,
                     s->seat + seats, s->seat_from[machine + 1] - seats, s->port + ports,
                     s->port_from[machine + 1] - ports))
        status = rt_rings_search(&s->rings[s->nrings], &site, s->nmachines > 1, error);
    else
        status = rt_fail(error, RINGTREE_NO_MEMORY, "no memory to search a machine of %u parts", site.n);
    s->looks += site.looks;
    rt_site_close(&site);
    if (status == RINGTREE_OK && !s->rings[s->nrings])
        return rt_fail(error, RINGTREE_UNSUPPORTED,
                       "machine %u: no ring through its %u places for ranks%s: some are not "
                       "connected", machine, s->seat_from[machine + 1] - seats,
                       s->nmachines > 1 ? " and a network port" : "");
    s->nrings += status == RINGTREE_OK;
    return status;
}

/* Few kinds of machines are expected; the latest is looked at first. */
static ringtree_status search_machines(struct rt_search *s, const struct machines *m, uint64_t *print,
                                       struct rt_error *error)
{
    for (uint32_t i = 0; i < s->nmachines; i++) {
        const uint64_t own = fingerprint(s->graph, m, i);
        uint32_t known = s->nrings;
        while (known > 0 && print[known - 1] != own)
            known--;
        if (known == 0) {
            print[s->nrings] = own;
            const ringtree_status status = search_machine(s, m, i, error);
            if (status != RINGTREE_OK)
                return status;
            known = s->nrings;
        }
        s->rings_of[i] = known - 1;
    }
    return RINGTREE_OK;
}

/* What all machines have. */
void rt_search_summarize(struct rt_search *s)
{
    s->nchannels = s->rings[0]->nchannels;
    s->gbs = s->rings[0]->gbs;
    for (uint32_t i = 1; i < s->nrings; i++) {
        if (s->nchannels > s->rings[i]->nchannels)
            s->nchannels = s->rings[i]->nchannels;
        if (s->gbs > s->rings[i]->gbs)
            s->gbs = s->rings[i]->gbs;
    }
}

static bool allocate(struct rt_search *s, const struct rt_graph *g)
{
    s->graph = g;
    s->nmachines = g->nmachines;
    s->seat = calloc(g->nvertices + (size_t)1, sizeof(*s->seat));
    s->port = calloc(g->nvertices + (size_t)1, sizeof(*s->port));
    s->seat_from = calloc(g->nmachines + (size_t)1, sizeof(*s->seat_from));
    s->port_from = calloc(g->nmachines + (size_t)1, sizeof(*s->port_from));
    s->rings_of = calloc(g->nmachines + (size_t)1, sizeof(*s->rings_of));
    s->rings = calloc(g->nmachines + (size_t)1, sizeof(*s->rings));
    return s->seat && s->port && s->seat_from && s->port_from && s->rings_of && s->rings;
}

static ringtree_status search_all(struct rt_search *s, struct machines *m, struct rt_error *error)
{
    ringtree_status status = RINGTREE_OK;
    uint64_t *print = calloc(s->nmachines, sizeof(*print));

    if (!print || !open_machines(m, s->graph)) {
        free(print);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to search %u machines", s->nmachines);
    }
    for (uint32_t i = 0; i < s->nmachines && status == RINGTREE_OK; i++)
        status = list_machine(s, m, i, error);
    s->seat_from[s->nmachines] = s->nseats;
    s->port_from[s->nmachines] = s->nports;
    if (status == RINGTREE_OK)
        status = search_machines(s, m, print, error);
    free(print);
    return status;
}

/* Marks of the seats. */
static ringtree_status choose_seats(struct machines *m, const struct rt_graph *g, const uint32_t *seat, uint32_t nseats,
                                    struct rt_error *error)
{
    m->chosen = calloc(g->nvertices, sizeof(*m->chosen));
    if (!m->chosen)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for %u places of ranks", nseats);
    for (uint32_t i = 0; i < nseats; i++) {
        if (seat[i] >= g->nvertices || m->chosen[seat[i]] || g->vertex[seat[i]].machine == RT_NO_VERTEX)
            return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "place %u of %u is no part of a machine, or is taken",
                           i, nseats);
        m->chosen[seat[i]] = true;
    }
    return RINGTREE_OK;
}

ringtree_status rt_search(struct rt_search **search, const struct rt_graph *graph, struct rt_error *error)
{
    return rt_search_among(search, graph, NULL, 0, error);
}

ringtree_status rt_search_among(struct rt_search **search, const struct rt_graph *graph, const uint32_t *seat,
                                uint32_t nseats, struct rt_error *error)
{
    struct rt_search *s = calloc(1, sizeof(*s));
    struct machines machines = { 0 };
    ringtree_status status = seat ? choose_seats(&machines, graph, seat, nseats, error) : RINGTREE_OK;

    *search = NULL;
    if (status != RINGTREE_OK)
        ;
    else if (s && allocate(s, graph))
        status = search_all(s, &machines, error);
    else
        status = rt_fail(error, RINGTREE_NO_MEMORY, "no memory to search %u machines", graph->nmachines);
    close_machines(&machines);
    if (status == RINGTREE_OK) {
        rt_search_summarize(s);
        *search = s;
    } else {
        rt_search_free(s);
    }
    return status;
}

void rt_search_free(struct rt_search *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->nrings; i++)
        free(s->rings[i]);
    free(s->rings);
    free(s->seat);
    free(s->port);
    free(s->seat_from);
    free(s->port_from);
    free(s->rings_of);
    free(s);
}

void rt_search_ring(const struct rt_search *s, uint32_t channel, uint32_t *vertex)
{
    for (uint32_t m = 0; m < s->nmachines; m++) {
        const struct rt_rings *rings = s->rings[s->rings_of[m]];
        for (uint32_t i = 0; i < rings->nseats; i++)
            *vertex++ = s->seat[s->seat_from[m] + rings->channel[channel].seat[i]];
    }
}

const char *rt_path_name(enum rt_path path)
{
    static const char *const names[] = { "LOC", "NVL", "PIX", "PXB", "PXN", "PHB", "SYS" };

    return path <= RT_PATH_SOCKETS ? names[path] : "?";
}
