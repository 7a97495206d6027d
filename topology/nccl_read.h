/* What the files that read NCCL's XML share: the graph under construction and the links that wait for its end. */
#ifndef RT_NCCL_READ_H
#define RT_NCCL_READ_H

#include "nccl.h"
#include "xml.h"

#define RT_NCCL_MOST_NVLINKS 8192 /* <nvlink> elements */
#define RT_NCCL_MOST_HOSTS   256
#define RT_NCCL_MOST_CPUS    256

/* An <nvlink>: what it leads to may come later in the file. */
struct rt_nccl_link {
    uint32_t gpu, target, count; /* target: RT_NO_VERTEX until it is resolved */
    uint32_t target_class;
    uint64_t target_busid;
    unsigned line;
};

struct rt_nccl_frame {
    uint8_t  element; /* enum element of nccl_read.c */
    uint32_t vertex;  /* that the element stands for or is about */
};

struct rt_nccl_reading {
    struct rt_graph     *graph;
    struct rt_nccl_frame frame[RT_XML_MOST_DEPTH + 1];
    unsigned             depth, skipping; /* frames; how deep inside an unknown element */
    uint32_t             fabric;
    struct { char hash[32]; uint32_t vertex; } host[RT_NCCL_MOST_HOSTS];
    uint32_t             nhosts, ncpus;
    struct rt_nccl_link  link[RT_NCCL_MOST_NVLINKS];
    uint32_t             nlinks;
    char                 ignored[64];
};

/* Whole numbers with a sentence if they are none; false: refused. A missing attribute leaves *number alone. */
bool rt_nccl_number(struct rt_xml *xml, const char **attributes, const char *name, long least, long most, long *number);

/* Turns links into edges, adding the NVSwitches that they name. */
bool rt_nccl_resolve_links(struct rt_nccl_reading *reading, struct rt_xml *xml);

#endif
