/*
 * Rings as NCCL's graph XML (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE): graph 0 the rings, graph 1 the trees, which have
 * the
 * same channels. A seat that is not a GPU is a <seat> by its number among the seats; NCCL has no word for it.
 */
#include "nccl.h"
#include "rings.h"
#include "xml.h"
#include <stdlib.h>
#include <string.h>

enum { PATTERN_TREE = 3, PATTERN_RING = 4 }; /* NCCL_TOPO_PATTERN_* */

/* The machine by whose parts the rings are told: the first that they are of. */
static uint32_t machine_of(const struct rt_search *s, uint32_t index)
{
    uint32_t machine = 0;

    while (s->rings_of[machine] != index)
        machine++;
    return machine;
}

static void write_net(const struct rt_search *s, uint32_t machine, uint32_t port, FILE *out)
{
    if (port != RT_NO_VERTEX)
        fprintf(out, "      <net dev=\"%d\"/>\n", s->graph->vertex[s->port[s->port_from[machine] + port]].number);
}

static void write_channel(const struct rt_search *s, uint32_t machine, const struct rt_channel *channel,
                          uint32_t nseats,
                          FILE *out)
{
    fputs("    <channel>\n", out);
    write_net(s, machine, channel->port_in, out);
    for (uint32_t i = 0; i < nseats; i++) {
        const struct rt_vertex *seat = &s->graph->vertex[s->seat[s->seat_from[machine] + channel->seat[i]]];
        if (seat->kind == RT_GPU)
            fprintf(out, "      <gpu dev=\"%d\"/>\n", seat->number);
        else
            fprintf(out, "      <seat dev=\"%u\"/>\n", channel->seat[i]);
    }
    write_net(s, machine, channel->port_out, out);
    fputs("    </channel>\n", out);
}

bool rt_rings_write(const struct rt_search *s, uint32_t index, FILE *out)
{
    const struct rt_rings *rings = s->rings[index];
    const uint32_t machine = machine_of(s, index);

    bool cross = false;
    for (uint32_t c = 0; c < rings->nchannels; c++)
        cross |= rings->channel[c].port_in != rings->channel[c].port_out;
    fputs("<graphs version=\"1\">\n", out);
    for (int id = 0; id < 2; id++) {
        fprintf(out, "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%d\" nchannels=\"%u\" speedintra=\"%.6g\" "
                "speedinter=\"%.6g\" latencyinter=\"0\" typeintra=\"%s\" typeinter=\"%s\" samechannels=\"%d\">\n",
                id, id ? PATTERN_TREE : PATTERN_RING, cross, rings->nchannels, (double)rings->gbs, (double)rings->gbs,
                rt_path_name(rings->within), rt_path_name(rings->to_port), id);
        for (uint32_t c = 0; c < rings->nchannels; c++)
            write_channel(s, machine, &rings->channel[c], rings->nseats, out);
        fputs("  </graph>\n", out);
    }
    fputs("</graphs>\n", out);
    return !ferror(out);
}

struct reading {
    const struct rt_search *search;
    uint32_t         machine, nseats, nports, depth;
    bool             is_ring;     /* inside graph 0 */
    struct rt_rings *rings;       /* NULL until graph 0 begins */
    uint32_t         channel;     /* that is being read, or how many were */
    uint32_t         seats;       /* of this channel so far */
    bool            *visited;
};

static bool number(struct rt_xml *xml, const char **attributes, const char *name, uint32_t *value)
{
    const char *text = rt_xml_value(attributes, name);
    char *end = NULL;
    const unsigned long read = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

    if (!end || *end || read > 1u << 24)
        return rt_xml_fail(xml, 0, "%s=\"%.40s\" is not a number", name, text ? text : "");
    *value = (uint32_t)read;
    return true;
}

static uint8_t path_of(const char **attributes, const char *name)
{
    const char *text = rt_xml_value(attributes, name);

    for (uint8_t path = RT_PATH_SAME; path <= RT_PATH_SOCKETS; path++)
        if (text && strcmp(rt_path_name(path), text) == 0)
            return path;
    return RT_PATH_SOCKETS;
}

static bool begin_graph(struct reading *r, struct rt_xml *xml, const char **attributes)
{
    const char *speed = rt_xml_value(attributes, "speedintra"), *inter = rt_xml_value(attributes, "speedinter");
    uint32_t id = 0, pattern = 0, channels = 0;

    if (!number(xml, attributes, "id", &id) || !number(xml, attributes, "pattern", &pattern) ||
        !number(xml, attributes, "nchannels", &channels))
        return false;
    r->is_ring = id == 0;
    if (!r->is_ring)
        return true;
    if (r->rings || pattern != PATTERN_RING)
        return rt_xml_fail(xml, 0, r->rings ? "there is a second graph 0" : "graph 0 is not of pattern 4, a ring");
    if (channels == 0 || channels > RT_MOST_CHANNELS)
        return rt_xml_fail(xml, 0, "nchannels is 1 to %d", RT_MOST_CHANNELS);
    float gbs = speed ? strtof(speed, NULL) : 0;
    if (r->search->nmachines > 1 && inter && strtof(inter, NULL) < gbs)
        gbs = strtof(inter, NULL);
    if (!(gbs > 0 && gbs < 1e6f))
        return rt_xml_fail(xml, 0, "speedintra and speedinter must be speeds in GB/s");
    r->rings = rt_rings_new(r->nseats, r->nports, channels);
    if (!r->rings)
        return rt_xml_fail(xml, 0, "no memory for %u channels", channels);
    r->rings->gbs = gbs;
    r->rings->within = path_of(attributes, "typeintra");
    r->rings->to_port = path_of(attributes, "typeinter");
    return true;
}

/* The index of a seat or port of the machine by its number. */
static bool find_by_number(const struct reading *r, struct rt_xml *xml, const char *name, uint32_t dev, uint32_t *index)
{
    const struct rt_search *s = r->search;
    const bool net = strcmp(name, "net") == 0;
    const uint32_t *list = net ? s->port + s->port_from[r->machine] : s->seat + s->seat_from[r->machine];
    const uint32_t count = net ? r->nports : r->nseats;

    for (*index = 0; *index < count; (*index)++) {
        const struct rt_vertex *v = &s->graph->vertex[list[*index]];
        if (net || v->kind == RT_GPU ? v->number == (int32_t)dev : *index == dev)
            return true;
    }
    return rt_xml_fail(xml, 0, "there is no <%s> %u in this machine, which has %u", name, dev, count);
}

static bool begin_hop(struct reading *r, struct rt_xml *xml, const char *name, const char **attributes)
{
    struct rt_channel *channel = &r->rings->channel[r->channel];
    uint32_t dev = 0, index = 0;

    if (!number(xml, attributes, "dev", &dev) || !find_by_number(r, xml, name, dev, &index))
        return false;
    if (strcmp(name, "net") == 0) {
        *(r->seats == 0 ? &channel->port_in : &channel->port_out) = index;
        return true;
    }
    if (r->visited[index])
        return rt_xml_fail(xml, 0, "the channel visits %s %u twice", name, dev);
    r->visited[index] = true;
    channel->seat[r->seats++] = (uint16_t)index;
    return true;
}

static bool begin_element(void *context, struct rt_xml *xml, const char *name, const char **attributes)
{
    static const char *const names[] = { "graphs", "graph", "channel" };
    struct reading *r = context;
    const uint32_t depth = r->depth++;

    if (depth > 3 || (depth < 3 && strcmp(name, names[depth]) != 0) ||
        (depth == 3 && strcmp(name, "gpu") != 0 && strcmp(name, "net") != 0 && strcmp(name, "seat") != 0))
        return rt_xml_fail(xml, 0, "<%.40s> cannot stand here in NCCL's graph XML", name);
    if (depth == 1)
        return begin_graph(r, xml, attributes);
    if (depth < 2 || !r->is_ring)
        return true;
    if (depth == 3)
        return begin_hop(r, xml, name, attributes);
    if (r->channel == r->rings->nchannels)
        return rt_xml_fail(xml, 0, "there are more channels than nchannels says");
    r->seats = 0;
    memset(r->visited, 0, r->nseats * sizeof(*r->visited));
    return true;
}

static bool end_element(void *context, struct rt_xml *xml)
{
    struct reading *r = context;

    if (--r->depth == 2 && r->is_ring) {
        const struct rt_channel *channel = &r->rings->channel[r->channel++];
        if (r->seats != r->nseats)
            return rt_xml_fail(xml, 0, "the channel visits %u of %u places for ranks", r->seats, r->nseats);
        if (r->search->nmachines > 1 && (channel->port_in == RT_NO_VERTEX || channel->port_out == RT_NO_VERTEX))
            return rt_xml_fail(xml, 0, "the channel does not come and go by a <net>");
    }
    if (r->depth == 1 && r->is_ring && r->channel != r->rings->nchannels)
        return rt_xml_fail(xml, 0, "there are %u channels, not the %u of nchannels", r->channel, r->rings->nchannels);
    if (r->depth == 0 && !r->rings)
        return rt_xml_fail(xml, 0, "there is no graph 0");
    return true;
}

ringtree_status rt_rings_read(struct rt_search *search, uint32_t index, const char *text, size_t length,
                              const char *origin, struct rt_error *error)
{
    struct reading r = { .search = search, .machine = machine_of(search, index), .nseats = search->rings[index]->nseats,
                         .nports = search->rings[index]->nports };

    r.visited = calloc(r.nseats + (size_t)1, sizeof(*r.visited));
    if (!r.visited)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to read %s", origin);
    const struct rt_xml_reader reader = { &r, begin_element, end_element };
    const ringtree_status status = rt_xml_read(&reader, text, length, origin, error);
    free(r.visited);
    if (status != RINGTREE_OK) {
        free(r.rings);
        return status;
    }
    free(search->rings[index]);
    search->rings[index] = r.rings;
    rt_search_summarize(search);
    return RINGTREE_OK;
}
