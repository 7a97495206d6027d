/* A synthetic machine's text as items, before anything is built of it. */
#ifndef RT_SYNTHETIC_PARSE_H
#define RT_SYNTHETIC_PARSE_H

#include "graph.h"

#define RT_SYNTHETIC_MOST_ITEMS 64
#define RT_SYNTHETIC_MOST_DEPTH 8
#define RT_SYNTHETIC_NONE       UINT8_MAX

enum rt_nvlink_shape { RT_NVLINK_NONE, RT_NVLINK_SWITCH, RT_NVLINK_MESH, RT_NVLINK_RING, RT_NVLINK_CUBE };

struct rt_synthetic_item {
    uint8_t  kind;               /* enum rt_vertex_kind */
    uint8_t  inside, next;       /* the first item inside it and the next one beside it; RT_SYNTHETIC_NONE */
    uint8_t  generation, width;  /* PCIe; 0 unknown */
    uint8_t  nvlinks, shape, ports;
    uint16_t sm;                 /* 0 unknown */
    uint32_t count, column;      /* column of its kind in the text, from 1 */
    float    gbit, link_gbs;     /* 0: not said */
};

struct rt_synthetic {
    struct rt_synthetic_item item[RT_SYNTHETIC_MOST_ITEMS];
    uint32_t                 nitems; /* item 0 is the first of the outermost list */
};

ringtree_status rt_synthetic_parse(struct rt_synthetic *synthetic, const char *text, struct rt_error *error);

#endif
