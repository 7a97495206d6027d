/*
 * Where everything lies in the shared file, computed alike by all ranks from the leader's few numbers.
 *
 * Slots get smaller with many ranks: all links together (seats^2 * RT_LINK_LANES of them) keep within MOST_LINKS of
 * address space, which leaves room for hundreds of communicators. With 4 slots, 128 KiB are kept up to 118 ranks; 256
 * ranks have 24 KiB; 4 KiB are the least, so beyond some 600 ranks the links outgrow that. The areas for direct
 * exchange have 2 MiB up to 256 ranks, then less. What is never touched costs nothing.
 *
 * Neighbouring areas and links begin an odd number of pages apart: memory that is a large power of two apart falls into
 * the same cache sets.
 */
#include "inside.h"
#include <string.h>
#include <unistd.h>

#define KIB         UINT64_C(1024)
#define GIB         (KIB * KIB * KIB)
#define MOST_LINKS  (64 * GIB)
#define AREA_BYTES  (2 * KIB * KIB + 64 * KIB)
#define LEAST_AREA  (128 * KIB)
#define LEAST_SLOT  (4 * KIB)
#define MOST_SLOT   (64 * KIB * KIB)
#define MOST_SLOTS  64
#define HEAP_BYTES  (KIB * GIB)
#define MOST_SEATS  65536

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t odd_pages(uint64_t bytes, uint64_t page)
{
    return ((bytes + page - 1) / page | 1) * page;
}

static uint64_t payload_offset(uint32_t slots, uint64_t page)
{
    return round_up(RT_NODE_LINE + (uint64_t)slots * 64, page);
}

static uint32_t slot_bytes_for(uint64_t wanted, uint32_t seats, uint32_t slots, uint64_t page)
{
    const uint64_t links = (uint64_t)seats * seats * RT_LINK_LANES;
    const uint64_t each = MOST_LINKS / links / page * page, head = payload_offset(slots, page) + page;
    uint64_t fits = each > head ? (each - head) / slots / LEAST_SLOT * LEAST_SLOT : 0;
    if (fits < LEAST_SLOT) fits = LEAST_SLOT;
    return (uint32_t)((wanted < fits ? wanted : fits) / 64 * 64);
}

static uint64_t area_bytes_for(uint32_t seats)
{
    const uint64_t fits = 256 * AREA_BYTES / seats / (64 * KIB) * (64 * KIB);
    if (fits >= AREA_BYTES) return AREA_BYTES;
    return fits < LEAST_AREA ? LEAST_AREA : fits;
}

static void layout_offsets(struct rt_node_layout *layout)
{
    const uint64_t page = layout->page, seats = layout->seats;
    layout->lines = round_up(sizeof(struct rt_node_header), page);
    layout->areas = round_up(layout->lines + seats * RT_NODE_LINE, page);
    layout->area_bytes = area_bytes_for(layout->seats);
    layout->area_stride = odd_pages(layout->area_bytes, page);
    layout->links = layout->areas + seats * layout->area_stride;
    layout->link_payload = payload_offset(layout->slots, page);
    layout->link_stride = odd_pages(layout->link_payload + (uint64_t)layout->slots * layout->slot_bytes, page);
    layout->heap = layout->links + seats * seats * RT_LINK_LANES * layout->link_stride;
}

static bool choice_is_sound(const struct rt_node_choice *choice)
{
    return choice->seats >= 2 && choice->seats <= MOST_SEATS && choice->slots >= 2 && choice->slots <= MOST_SLOTS &&
           choice->slot_bytes >= LEAST_SLOT && choice->slot_bytes <= MOST_SLOT && choice->slot_bytes % 64 == 0;
}

static void layout_of(struct rt_node_layout *layout, const struct rt_node_choice *choice)
{
    memset(layout, 0, sizeof *layout);
    *layout = (struct rt_node_layout){ .magic = RT_NODE_MAGIC, .number = choice->number, .version = RT_NODE_VERSION,
                                       .seats = choice->seats, .slots = choice->slots,
                                       .slot_bytes = choice->slot_bytes, .page = (uint64_t)sysconf(_SC_PAGESIZE),
                                       .file_bytes = choice->file_bytes };
    layout_offsets(layout);
}

void rt_layout_choose(struct rt_node_choice *choice, const struct rt_settings *settings, uint32_t seats,
                      uint64_t number, uint64_t most_file_bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint32_t slots = (uint32_t)settings->number[RT_SHM_SLOTS];
    memset(choice, 0, sizeof *choice);
    choice->seats = seats;
    choice->slots = slots < 2 ? 2 : slots > MOST_SLOTS ? MOST_SLOTS : slots;
    choice->slot_bytes = slot_bytes_for(settings->number[RT_SHM_SLOT_BYTES], seats, choice->slots, page);
    choice->number = number;
    struct rt_node_layout layout;
    if (!choice_is_sound(choice)) return;
    layout_of(&layout, choice);
    const uint64_t wanted = layout.heap + HEAP_BYTES, limit = most_file_bytes / page * page;
    choice->file_bytes = wanted <= limit ? wanted : limit > layout.heap ? limit : 0;
}

bool rt_layout_from(struct rt_node_layout *layout, const struct rt_node_choice *choice)
{
    if (!choice_is_sound(choice)) return false;
    layout_of(layout, choice);
    return layout->file_bytes > layout->heap && layout->file_bytes <= layout->heap + HEAP_BYTES &&
           layout->file_bytes % layout->page == 0;
}
