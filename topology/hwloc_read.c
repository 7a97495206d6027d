/*
 * hwloc's tree of objects as a graph. What shares a last-level cache is one group of cores; devices hang at the NUMA
 * domain that hwloc finds them near, else at the package or the machine. Of the PCI tree only what leads to a GPU or a
 * network card is kept.
 */
#include "discover.h"
#include "rates.h"
#include "xml.h"
#include <stdio.h>
#include <string.h>

#ifdef RT_HAVE_HWLOC
#include "hwloc_load.h"

#define MOST_DEPTH 128 /* of objects; hwloc's own limit is lower */

struct converter {
    struct rt_graph *graph;
    uint32_t         machine, fabric, gpus, nics, ports, core_groups;
    unsigned         depth;
};

bool rt_hwloc_available(const char **why)
{
    return rt_hwloc_load(why) != NULL;
}

static const char *info(hwloc_obj_t object, const char *name)
{
    for (unsigned i = 0; i < object->infos_count; i++)
        if (strcmp(object->infos[i].name, name) == 0)
            return object->infos[i].value;
    return NULL;
}

static void keep_info(struct converter *c, uint32_t v, hwloc_obj_t object, const char *name, const char *key)
{
    const char *value = info(object, name);

    if (value)
        rt_graph_attribute(c->graph, v, key, value);
}

static bool is_pci(hwloc_obj_t object)
{
    return object->type == HWLOC_OBJ_PCI_DEVICE ||
           (object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI);
}

static enum rt_vertex_kind kind_of(hwloc_obj_t object)
{
    if (object->type == HWLOC_OBJ_BRIDGE)
        return object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST ? RT_HOST_BRIDGE : RT_PCI_SWITCH;
    switch (object->attr->pcidev.class_id >> 8) {
    case 0x02: return RT_NIC;
    case 0x03:
    case 0x12: return RT_GPU;
    default:   return RT_PCI_DEVICE;
    }
}

/* A GPU or NIC, or a bridge that leads to one. */
static bool is_useful(hwloc_obj_t object, unsigned depth)
{
    if (object->type == HWLOC_OBJ_PCI_DEVICE)
        return kind_of(object) != RT_PCI_DEVICE;
    if (object->type != HWLOC_OBJ_BRIDGE || depth > MOST_DEPTH)
        return false;
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        if (is_useful(child, depth + 1))
            return true;
    return false;
}

/*
 * Of the devices that the system offers for one function, RDMA ones are ports where there are any, else network ones.
 */
static hwloc_obj_osdev_type_t port_type(hwloc_obj_t first)
{
    for (hwloc_obj_t child = first; child; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            return HWLOC_OBJ_OSDEV_OPENFABRICS;
    return HWLOC_OBJ_OSDEV_NETWORK;
}

static void add_port(struct converter *c, uint32_t parent, hwloc_obj_t object)
{
    if (c->fabric == RT_NO_VERTEX)
        c->fabric = rt_graph_add(c->graph, RT_FABRIC, 0);
    const uint32_t port = rt_graph_attach(c->graph, RT_PORT, parent, RT_PORT_LINK, NULL);
    if (!rt_graph_connect(c->graph, RT_NETWORK, port, c->fabric))
        return;
    c->graph->vertex[port].number = (int32_t)c->ports++;
    rt_graph_name(c->graph, port, object->name ? object->name : "");
    rt_graph_attribute(c->graph, port, "kind",
                       object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS ? "rdma" : "network");
    keep_info(c, port, object, "NodeGUID", "guid");
    keep_info(c, port, object, "Address", "address");
}

static void add_ports(struct converter *c, uint32_t parent, hwloc_obj_t first)
{
    const hwloc_obj_osdev_type_t type = port_type(first);

    for (hwloc_obj_t child = first; child; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == type)
            add_port(c, parent, child);
}

static void describe_function(struct converter *c, uint32_t v, hwloc_obj_t object)
{
    const struct hwloc_pcidev_attr_s *pci =
        object->type == HWLOC_OBJ_BRIDGE ? &object->attr->bridge.upstream.pci : &object->attr->pcidev;
    struct rt_vertex *vertex = &c->graph->vertex[v];
    struct rt_edge *edge = &c->graph->edge[c->graph->nedges - 1];
    char text[16];

    vertex->busid = (uint64_t)pci->domain << 16 | (uint64_t)pci->bus << 8 | (uint64_t)(pci->dev & 31) << 3 |
                    (pci->func & 7);
    vertex->pci_class = (uint32_t)pci->class_id << 8;
    vertex->number = vertex->kind == RT_GPU ? (int32_t)c->gpus++ : vertex->kind == RT_NIC ? (int32_t)c->nics++ : -1;
    if (pci->linkspeed > 0 && pci->linkspeed < 1000) /* raw GB/s; rates.c says what of it is payload */
        edge->gbs = (struct rt_value){ pci->linkspeed * 12 / 15.75f, RT_KNOWN };
    snprintf(text, sizeof(text), "0x%04x", pci->vendor_id);
    rt_graph_attribute(c->graph, v, "pci.vendor", text);
    snprintf(text, sizeof(text), "0x%04x", pci->device_id);
    rt_graph_attribute(c->graph, v, "pci.device", text);
}

static void convert_io(struct converter *c, hwloc_obj_t object, uint32_t parent)
{
    if (!is_useful(object, 0) || rt_graph_failed(c->graph) || c->depth >= MOST_DEPTH)
        return;
    const enum rt_vertex_kind kind = kind_of(object);
    const uint32_t v = rt_graph_attach(c->graph, kind, parent, kind == RT_HOST_BRIDGE ? RT_HOST_LINK : RT_PCI_LINK,
                                       NULL);
    if (v == RT_NO_VERTEX)
        return;
    if (is_pci(object))
        describe_function(c, v, object);
    if (kind == RT_NIC)
        add_ports(c, v, object->io_first_child);
    c->depth++;
    if (object->type == HWLOC_OBJ_BRIDGE)
        for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
            convert_io(c, child, v);
    c->depth--;
}

static uint32_t count_cores(hwloc_obj_t object)
{
    uint32_t count = object->type == HWLOC_OBJ_CORE;

    for (unsigned i = 0; i < object->arity; i++)
        count += count_cores(object->children[i]);
    return count;
}

static void add_cores(struct converter *c, hwloc_obj_t object, uint32_t parent)
{
    const uint32_t cores = count_cores(object);
    const uint32_t v = cores ? rt_graph_attach(c->graph, RT_CORES, parent, RT_INSIDE, NULL) : RT_NO_VERTEX;

    if (v == RT_NO_VERTEX)
        return;
    c->graph->vertex[v].number = (int32_t)c->core_groups++;
    c->graph->vertex[v].count = cores;
}

/* The first memory of an object is where what is inside it lives; without one, `place` stays. */
static uint32_t add_memory(struct converter *c, hwloc_obj_t object, uint32_t place)
{
    const uint32_t outside = place;
    char bytes[24];

    for (hwloc_obj_t child = object->memory_first_child; child; child = child->next_sibling) {
        while (child && child->type == HWLOC_OBJ_MEMCACHE)
            child = child->memory_first_child;
        if (!child || child->type != HWLOC_OBJ_NUMANODE)
            break;
        const bool top = c->graph->vertex[outside].kind == RT_MACHINE;
        const uint32_t v = top ? rt_graph_add(c->graph, RT_NUMA, outside)
                               : rt_graph_attach(c->graph, RT_NUMA, outside, RT_INSIDE, NULL);
        if (v == RT_NO_VERTEX)
            break;
        c->graph->vertex[v].number = (int32_t)child->os_index;
        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)child->attr->numanode.local_memory);
        rt_graph_attribute(c->graph, v, "memory_bytes", bytes);
        if (place == outside)
            place = v;
    }
    return place;
}

static bool has_packages(hwloc_obj_t object)
{
    for (unsigned i = 0; i < object->arity; i++)
        if (object->children[i]->type == HWLOC_OBJ_PACKAGE || has_packages(object->children[i]))
            return true;
    return false;
}

/* The only NUMA domain or package, if there is just one: then devices are near to it. Else `place`. */
static uint32_t only_processor(const struct converter *c, uint32_t place)
{
    uint32_t count[RT_CORES] = { 0 }, last[RT_CORES];

    for (uint32_t v = 0; v < c->graph->nvertices; v++)
        if (c->graph->vertex[v].kind < RT_CORES)
            last[c->graph->vertex[v].kind] = v, count[c->graph->vertex[v].kind]++;
    if (count[RT_PACKAGE] > 1 || count[RT_NUMA] > 1)
        return place;
    if (count[RT_NUMA])
        return last[RT_NUMA];
    return count[RT_PACKAGE] ? last[RT_PACKAGE] : place;
}

static bool is_core_or_cache(hwloc_obj_t object)
{
    return object->type >= HWLOC_OBJ_CORE && object->type <= HWLOC_OBJ_L3CACHE;
}

/* Whether memory or devices are near to only some of what is inside. */
static bool is_divided(hwloc_obj_t object)
{
    for (unsigned i = 0; i < object->arity; i++)
        if (object->children[i]->memory_first_child || object->children[i]->io_first_child ||
            is_divided(object->children[i]))
            return true;
    return false;
}

static uint32_t add_package(struct converter *c, hwloc_obj_t object)
{
    const uint32_t v = rt_graph_add(c->graph, RT_PACKAGE, c->machine);

    if (v == RT_NO_VERTEX)
        return v;
    c->graph->vertex[v].number = (int32_t)object->os_index;
    keep_info(c, v, object, "CPUVendor", "vendor");
    keep_info(c, v, object, "CPUFamilyNumber", "familyid");
    keep_info(c, v, object, "CPUModelNumber", "modelid");
    keep_info(c, v, object, "CPUModel", "model");
    return v;
}

static void convert(struct converter *c, hwloc_obj_t object, uint32_t place)
{
    if (object->type == HWLOC_OBJ_PACKAGE)
        place = add_package(c, object);
    if (rt_graph_failed(c->graph) || c->depth >= MOST_DEPTH)
        return;
    /* one memory for several packages is near to none of them */
    if (object->type != HWLOC_OBJ_MACHINE || !has_packages(object))
        place = add_memory(c, object, place);
    c->depth++;
    if (is_core_or_cache(object) && !is_divided(object))
        add_cores(c, object, place);
    else
        for (unsigned i = 0; i < object->arity; i++)
            convert(c, object->children[i], place);
    if (place == c->machine && !rt_graph_failed(c->graph))
        place = only_processor(c, place);
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        convert_io(c, child, place);
    add_ports(c, place, object->io_first_child);
    c->depth--;
}

static struct rt_graph *convert_all(hwloc_obj_t root, struct rt_error *error)
{
    struct converter c = { .graph = rt_graph_new(), .fabric = RT_NO_VERTEX };

    if (!c.graph) {
        rt_fail(error, RINGTREE_NO_MEMORY, "no memory for this machine's parts");
        return NULL;
    }
    c.machine = rt_graph_add(c.graph, RT_MACHINE, 0);
    if (c.machine != RT_NO_VERTEX) {
        c.graph->vertex[c.machine].number = 0;
        const char *host = info(root, "HostName");
        rt_graph_name(c.graph, c.machine, host ? host : "");
        keep_info(&c, c.machine, root, "OSRelease", "kernel");
        keep_info(&c, c.machine, root, "Architecture", "arch");
        convert(&c, root, c.machine);
        rt_graph_join_processors(c.graph, c.machine, 0);
    }
    return c.graph;
}

struct rt_graph *rt_hwloc_build(const char *xml, size_t length, struct rt_error *error)
{
    const char *why;
    const struct rt_hwloc *hwloc = rt_hwloc_load(&why);
    hwloc_topology_t topology;
    struct rt_graph *graph = NULL;

    if (!hwloc) {
        rt_fail(error, RINGTREE_UNSUPPORTED, "the machine cannot be looked at: %s", why);
        return NULL;
    }
    if (hwloc->init(&topology) < 0) {
        rt_fail_errno(error, "hwloc cannot be started");
        return NULL;
    }
    hwloc->filter_io(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if ((xml && hwloc->from_xml(topology, xml, (int)length + 1) < 0) || hwloc->load(topology) < 0)
        rt_fail_errno(error, xml ? "hwloc does not accept this as a machine" : "hwloc cannot look at this machine");
    else
        graph = convert_all(hwloc->object(topology, 0, 0), error);
    hwloc->destroy(topology);
    return graph;
}

#else

bool rt_hwloc_available(const char **why)
{
    *why = "this ringtree was built without hwloc";
    return false;
}

struct rt_graph *rt_hwloc_build(const char *xml, size_t length, struct rt_error *error)
{
    (void)xml, (void)length;
    rt_fail(error, RINGTREE_UNSUPPORTED, "the machine cannot be looked at: this ringtree was built without hwloc");
    return NULL;
}
#endif

static bool begin_any(void *context, struct rt_xml *xml, const char *element, const char **attributes)
{
    bool *begun = context;

    (void)attributes;
    if (!*begun && strcmp(element, "topology") != 0)
        return rt_xml_fail(xml, 0, "<%.40s> does not begin hwloc's XML, <topology> does", element);
    return *begun = true;
}

static bool end_any(void *context, struct rt_xml *xml)
{
    (void)context, (void)xml;
    return true;
}

/* Hostile XML is refused before hwloc sees it. */
ringtree_status rt_hwloc_read(struct rt_graph **graph, const char *text, size_t length, const char *origin,
                              struct rt_error *error)
{
    bool begun = false;
    struct rt_error why;
    ringtree_status status = rt_xml_read(&(struct rt_xml_reader){ &begun, begin_any, end_any }, text, length, origin,
                                         error);

    *graph = NULL;
    if (status != RINGTREE_OK)
        return status;
    struct rt_graph *g = rt_hwloc_build(text, length, &why);
    if (!g)
        return rt_fail(error, why.status == RINGTREE_SYSTEM ? RINGTREE_INVALID_ARGUMENT : why.status, "%s: %s", origin,
                       why.text);
    status = rt_graph_finish(g, &why);
    if (status == RINGTREE_OK)
        *graph = g;
    else
        rt_fail(error, status, "%s: %s", origin, why.text), rt_graph_free(g);
    return status;
}
