/* Reads NCCL's topology XML: which element may stand where, and the part of the machine that it stands for. */
#include "nccl_read.h"
#include "rates.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum element { ELEMENT_SYSTEM, ELEMENT_CPU, ELEMENT_PCI, ELEMENT_GPU, ELEMENT_NVLINK, ELEMENT_NIC, ELEMENT_NET,
               ELEMENTS };
enum { ELEMENT_NONE = ELEMENTS };

#define IN(element) (1u << (element))

static const struct { const char *name; uint32_t inside; } elements[ELEMENTS] = {
    [ELEMENT_SYSTEM] = { "system", IN(ELEMENT_NONE) },
    [ELEMENT_CPU]    = { "cpu", IN(ELEMENT_SYSTEM) },
    [ELEMENT_PCI]    = { "pci", IN(ELEMENT_CPU) | IN(ELEMENT_PCI) },
    [ELEMENT_GPU]    = { "gpu", IN(ELEMENT_PCI) },
    [ELEMENT_NVLINK] = { "nvlink", IN(ELEMENT_GPU) },
    [ELEMENT_NIC]    = { "nic", IN(ELEMENT_PCI) | IN(ELEMENT_CPU) },
    [ELEMENT_NET]    = { "net", IN(ELEMENT_NIC) },
};

static bool no_memory(struct rt_xml *xml)
{
    return rt_xml_fail(xml, 0, "no memory for the machine");
}

/* A failure of the graph is one of this line. */
static bool graph_is_fine(struct rt_nccl_reading *r, struct rt_xml *xml)
{
    struct rt_error why;

    if (!rt_graph_failed(r->graph))
        return true;
    rt_graph_finish(r->graph, &why);
    return rt_xml_fail(xml, 0, "%s", why.text);
}

bool rt_nccl_number(struct rt_xml *xml, const char **attributes, const char *name, long least, long most, long *number)
{
    const char *text = rt_xml_value(attributes, name);
    char *end;

    if (!text)
        return true;
    errno = 0;
    const long value = strtol(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (end == text || *end || errno || text[0] == ' ' || value < least || value > most)
        return rt_xml_fail(xml, 0, "%s=\"%.40s\" is not a number from %ld to %ld", name, text, least, most);
    *number = value;
    return true;
}

/* Keeps all attributes but those named in `taken`, a list with a space after each. */
static void keep_attributes(struct rt_nccl_reading *r, uint32_t vertex, const char *prefix, const char *taken,
                            const char **attributes)
{
    char key[96], word[96];

    for (; *attributes; attributes += 2) {
        if (strlen(attributes[0]) > 80)
            continue;
        snprintf(word, sizeof(word), "%s ", attributes[0]);
        const char *found = strstr(taken, word);
        if (found && (found == taken || found[-1] == ' '))
            continue;
        snprintf(key, sizeof(key), "%s%s", prefix, attributes[0]);
        rt_graph_attribute(r->graph, vertex, key, attributes[1]);
    }
}

static bool begin_system(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes)
{
    long version = 0;

    if (!rt_nccl_number(xml, attributes, "version", 0, 1000, &version))
        return false;
    if (version != 1)
        return rt_xml_fail(xml, 0, "<system version=\"%ld\"> is not known, version 1 is", version);
    keep_attributes(r, 0, "", "version ", attributes);
    return true;
}

/* The machine of a <cpu>: one for each host_hash. */
static uint32_t machine_of(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes)
{
    const char *hash = rt_xml_value(attributes, "host_hash");

    hash = hash ? hash : "";
    for (uint32_t i = 0; i < r->nhosts; i++)
        if (strcmp(r->host[i].hash, hash) == 0)
            return r->host[i].vertex;
    if (r->nhosts == RT_NCCL_MOST_HOSTS || strlen(hash) >= sizeof(r->host[0].hash)) {
        rt_xml_fail(xml, 0, "there are over %d values of host_hash, or one is too long", RT_NCCL_MOST_HOSTS);
        return RT_NO_VERTEX;
    }
    strcpy(r->host[r->nhosts].hash, hash);
    const uint32_t machine = rt_graph_add(r->graph, RT_MACHINE, 0);
    if (machine != RT_NO_VERTEX)
        r->graph->vertex[machine].number = (int32_t)r->nhosts;
    return r->host[r->nhosts++].vertex = machine;
}

static bool begin_cpu(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t *vertex)
{
    const uint32_t machine = machine_of(r, xml, attributes);
    long numa = -1;

    if (machine == RT_NO_VERTEX || !rt_nccl_number(xml, attributes, "numaid", -1, 65535, &numa))
        return false;
    if (++r->ncpus > RT_NCCL_MOST_CPUS)
        return rt_xml_fail(xml, 0, "there are over %d <cpu>", RT_NCCL_MOST_CPUS);
    for (uint32_t v = machine + 1; v < r->graph->nvertices; v++)
        if (r->graph->vertex[v].kind == RT_NUMA && r->graph->vertex[v].machine == machine &&
            r->graph->vertex[v].number == numa)
            return rt_xml_fail(xml, 0, "there is a second <cpu> with numaid %ld", numa);
    *vertex = rt_graph_add(r->graph, RT_NUMA, machine);
    if (*vertex == RT_NO_VERTEX)
        return no_memory(xml);
    r->graph->vertex[*vertex].number = (int32_t)numa;
    keep_attributes(r, *vertex, "", "numaid ", attributes);
    return true;
}

static enum rt_vertex_kind kind_of_class(uint32_t pci_class)
{
    switch (pci_class >> 8) {
    case 0x0604: return RT_PCI_SWITCH;
    case 0x0680: return RT_NVSWITCH;
    default: break;
    }
    if (pci_class >> 16 == 0x03) return RT_GPU;
    return pci_class >> 16 == 0x02 ? RT_NIC : RT_PCI_DEVICE;
}

/* An element inside a <pci> says what that is, unless its class has said otherwise. */
static bool be(struct rt_nccl_reading *r, struct rt_xml *xml, uint32_t vertex, enum rt_vertex_kind kind)
{
    struct rt_vertex *v = &r->graph->vertex[vertex];
    char text[96];

    if (v->kind != RT_PCI_DEVICE && v->kind != kind)
        return rt_xml_fail(xml, 0, "%s cannot hold what a %s holds",
                           rt_vertex_text(r->graph, vertex, text, sizeof(text)),
                           rt_vertex_kind_name(kind));
    v->kind = (uint8_t)kind;
    return true;
}

static bool read_link(struct rt_xml *xml, const char **attributes, struct rt_edge *edge)
{
    const char *speed = rt_xml_value(attributes, "link_speed"), *width = rt_xml_value(attributes, "link_width");
    const int generation = speed ? rt_pci_generation(speed) : 0;
    long lanes = 0;

    if (generation < 0)
        return rt_xml_fail(xml, 0, "link_speed=\"%.40s\" is the speed of no PCIe generation", speed);
    if (width && *width && strcmp(width, "Unknown") != 0 &&
        !rt_nccl_number(xml, attributes, "link_width", 0, 255, &lanes))
        return false;
    if (lanes == 63 || lanes == 255) /* what the kernel says when it does not know */
        lanes = 0;
    if (lanes > 32)
        return rt_xml_fail(xml, 0, "link_width=\"%ld\" is the width of no PCIe link", lanes);
    edge->generation = (uint8_t)generation;
    edge->width = (uint8_t)lanes;
    return true;
}

static bool begin_pci(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t *vertex)
{
    const char *busid = rt_xml_value(attributes, "busid");
    const uint32_t parent = *vertex;
    long pci_class = 0;
    struct rt_edge *edge;

    if (!busid || rt_busid_parse(busid) == RT_NO_BUSID)
        return rt_xml_fail(xml, 0, "busid=\"%.40s\" is not a bus id such as 0000:0f:00.0", busid ? busid : "");
    if (!rt_nccl_number(xml, attributes, "class", 0, 0xffffff, &pci_class))
        return false;
    if (r->graph->vertex[parent].kind != RT_NUMA && !be(r, xml, parent, RT_PCI_SWITCH))
        return false;
    *vertex = rt_graph_attach(r->graph, kind_of_class((uint32_t)pci_class), parent, RT_PCI_LINK, &edge);
    if (*vertex == RT_NO_VERTEX)
        return graph_is_fine(r, xml);
    struct rt_vertex *v = &r->graph->vertex[*vertex];
    v->busid = rt_busid_parse(busid);
    v->pci_class = (uint32_t)pci_class;
    v->count = rt_xml_line(xml); /* until the bus ids are checked */
    keep_attributes(r, *vertex, "pci.", "busid class link_speed link_width ", attributes);
    return read_link(xml, attributes, edge);
}

static bool begin_gpu(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t vertex)
{
    long dev = -1, sm = 0, rank = -1;

    if (!be(r, xml, vertex, RT_GPU) || !rt_nccl_number(xml, attributes, "dev", -1, 65535, &dev) ||
        !rt_nccl_number(xml, attributes, "sm", 0, 999, &sm) ||
        !rt_nccl_number(xml, attributes, "rank", -1, 1 << 24, &rank))
        return false;
    if (rt_attribute(r->graph, vertex, "gpu"))
        return rt_xml_fail(xml, 0, "this is the second <gpu> of its <pci>");
    rt_graph_attribute(r->graph, vertex, "gpu", "1");
    r->graph->vertex[vertex].number = (int32_t)dev;
    keep_attributes(r, vertex, "", "dev gpu ", attributes);
    return true;
}

static bool begin_nvlink(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t gpu)
{
    const char *target = rt_xml_value(attributes, "target");
    long count = 1, target_class = 0;

    if (!rt_nccl_number(xml, attributes, "count", 1, 255, &count) ||
        !rt_nccl_number(xml, attributes, "tclass", 0, 0xffffff, &target_class))
        return false;
    if (!target)
        return rt_xml_fail(xml, 0, "<nvlink> has no target");
    if (r->nlinks == RT_NCCL_MOST_NVLINKS)
        return rt_xml_fail(xml, 0, "there are over %d <nvlink>", RT_NCCL_MOST_NVLINKS);
    r->link[r->nlinks++] = (struct rt_nccl_link){ gpu, RT_NO_VERTEX, (uint32_t)count, (uint32_t)target_class,
                                                  rt_busid_parse(target), rt_xml_line(xml) };
    return true;
}

static bool begin_net(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t *vertex)
{
    const char *name = rt_xml_value(attributes, "name");
    long dev = -1, megabits = 0;

    if (!rt_nccl_number(xml, attributes, "dev", -1, 65535, &dev) ||
        !rt_nccl_number(xml, attributes, "speed", -1, 100000000, &megabits))
        return false;
    if (r->fabric == RT_NO_VERTEX)
        r->fabric = rt_graph_add(r->graph, RT_FABRIC, 0);
    *vertex = rt_graph_attach(r->graph, RT_PORT, *vertex, RT_PORT_LINK, NULL);
    struct rt_edge *edge = rt_graph_connect(r->graph, RT_NETWORK, *vertex, r->fabric);
    if (!edge)
        return graph_is_fine(r, xml);
    if (megabits > 0)
        edge->gbs = (struct rt_value){ (float)megabits / 8000, RT_KNOWN };
    r->graph->vertex[*vertex].number = (int32_t)dev;
    rt_graph_name(r->graph, *vertex, name ? name : "");
    keep_attributes(r, *vertex, "", "name dev speed ", attributes);
    return true;
}

static bool begin_nic(struct rt_nccl_reading *r, struct rt_xml *xml, const char **attributes, uint32_t vertex)
{
    if (r->graph->vertex[vertex].kind == RT_NUMA) /* a network device that is on no PCI bus */
        return true;
    keep_attributes(r, vertex, "", "", attributes);
    return be(r, xml, vertex, RT_NIC);
}

static bool begin_known(struct rt_nccl_reading *r, struct rt_xml *xml, enum element element, const char **attributes,
                        uint32_t *vertex)
{
    switch (element) {
    case ELEMENT_SYSTEM: return begin_system(r, xml, attributes);
    case ELEMENT_CPU:    return begin_cpu(r, xml, attributes, vertex);
    case ELEMENT_PCI:    return begin_pci(r, xml, attributes, vertex);
    case ELEMENT_GPU:    return begin_gpu(r, xml, attributes, *vertex);
    case ELEMENT_NVLINK: return begin_nvlink(r, xml, attributes, *vertex);
    case ELEMENT_NIC:    return begin_nic(r, xml, attributes, *vertex);
    default:             return begin_net(r, xml, attributes, vertex);
    }
}

static void skip_element(struct rt_nccl_reading *r, const char *name)
{
    const size_t used = strlen(r->ignored);

    if (r->skipping++ == 0 && !strstr(r->ignored, name) && used + strlen(name) + 2 < sizeof(r->ignored))
        snprintf(r->ignored + used, sizeof(r->ignored) - used, "%s%s", used ? " " : "", name);
}

static bool begin_element(void *context, struct rt_xml *xml, const char *name, const char **attributes)
{
    struct rt_nccl_reading *r = context;
    const struct rt_nccl_frame *parent = r->depth ? &r->frame[r->depth - 1] : NULL;
    struct rt_nccl_frame frame = { .vertex = parent ? parent->vertex : 0 };

    if (r->skipping) {
        r->skipping++;
        return true;
    }
    while (frame.element < ELEMENTS && strcmp(elements[frame.element].name, name) != 0)
        frame.element++;
    if (frame.element == ELEMENTS && parent) {
        skip_element(r, name);
        return true;
    }
    if (frame.element == ELEMENTS)
        return rt_xml_fail(xml, 0, "<%.40s> does not begin NCCL's topology, <system> does", name);
    if (!(elements[frame.element].inside & IN(parent ? parent->element : ELEMENT_NONE)))
        return rt_xml_fail(xml, 0, "<%s> cannot stand %s%s", name, parent ? "inside " : "outermost",
                           parent ? elements[parent->element].name : "");
    if (!begin_known(r, xml, frame.element, attributes, &frame.vertex))
        return false;
    r->frame[r->depth++] = frame;
    return graph_is_fine(r, xml);
}

static bool end_element(void *context, struct rt_xml *xml)
{
    struct rt_nccl_reading *r = context;

    if (r->skipping)
        r->skipping--;
    else if (--r->depth == 0)
        return rt_nccl_resolve_links(r, xml) && graph_is_fine(r, xml);
    return true;
}

ringtree_status rt_nccl_read(struct rt_graph **graph, const char *text, size_t length, const char *origin,
                             struct rt_error *error)
{
    struct rt_nccl_reading *r = calloc(1, sizeof(*r));
    const struct rt_xml_reader reader = { r, begin_element, end_element };

    *graph = NULL;
    if (r)
        r->graph = rt_graph_new();
    if (!r || !r->graph) {
        free(r);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to read %s", origin);
    }
    r->fabric = RT_NO_VERTEX;
    ringtree_status status = rt_xml_read(&reader, text, length, origin, error);
    if (status == RINGTREE_OK && r->ignored[0])
        rt_graph_attribute(r->graph, 0, "ignored", r->ignored);
    struct rt_error why;
    if (status == RINGTREE_OK && (status = rt_graph_finish(r->graph, &why)) != RINGTREE_OK)
        rt_fail(error, status, "%s: %s", origin, why.text);
    if (status == RINGTREE_OK)
        *graph = r->graph;
    else
        rt_graph_free(r->graph);
    free(r);
    return status;
}
