/* A plan as a drawing: ranks across, steps down, an arrow per message in the colour of its first chunk. */
#include "ringtree-plan.h"
#include <stdlib.h>

#define BOX_WIDTH  146
#define BOX_HEIGHT 36
#define LANE_GAP   10
#define RANK_GAP   34
#define ROW        76
#define LEFT       28
#define TOP        118
#define LEGEND     58

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2733}\n"
    ".title{font-size:20px;font-weight:600}.sub{font-size:12.5px;fill:#5b6675}\n"
    ".rank{font-size:14px;font-weight:600;text-anchor:middle}.lane{font-size:11px;fill:#5b6675;text-anchor:middle}\n"
    ".verb{font-size:11.5px;font-weight:600}.chunk{font-size:11px;fill:#465162}\n"
    ".band{fill:#f4f6f9}.paper{fill:#fff}.rail{stroke:#d5dbe3;stroke-width:1.5}\n"
    ".send{fill:#e3eefb;stroke:#7fa8d8}.add{fill:#fdeedb;stroke:#dba35c}.keep{fill:#e2f3e6;stroke:#79b68a}\n"
    ".copy{fill:#eceef1;stroke:#a6afba}.final{stroke:#b4531a;stroke-width:2.4}\n"
    ".message{fill:none;stroke-width:1.8;stroke-opacity:.8}.wait{fill:none;stroke:#8a94a3;stroke-dasharray:3 3}\n"
    "</style>\n";

static uint32_t rank_width(const struct plan *plan)
{
    return plan->lanes * BOX_WIDTH + (plan->lanes - 1) * LANE_GAP;
}

static uint32_t rank_x(const struct plan *plan, uint32_t rank)
{
    return LEFT + rank * (rank_width(plan) + RANK_GAP);
}

static uint32_t box_x(const struct plan *plan, const struct plan_event *e)
{
    return rank_x(plan, e->rank) + e->lane * (BOX_WIDTH + LANE_GAP);
}

static uint32_t box_y(const struct plan_event *e)
{
    return TOP + e->row * ROW;
}

static uint32_t hue(const struct plan *plan, const struct rt_step *step)
{
    const uint32_t chunk = rt_step_length_chunk(step) % plan->chunks;
    return (uint32_t)((210 + (uint64_t)chunk * 360 / plan->chunks) % 360);
}

static const char *verb_words(const struct rt_step *step)
{
    switch (step->verb) {
    case RT_SEND:                  return "send";
    case RT_RECV_REDUCE_SEND:      return "add, pass on";
    case RT_RECV_REDUCE_KEEP:      return "add, keep";
    case RT_RECV_REDUCE_KEEP_SEND: return "add, keep, pass on";
    case RT_RECV_KEEP_SEND:        return "keep, pass on";
    case RT_RECV_KEEP:             return "keep";
    case RT_COPY:                  return "copy";
    case RT_REDUCE:                return "add own";
    default:                       return "wait";
    }
}

static const char *verb_class(const struct rt_step *step)
{
    if (step->verb == RT_SEND) return "send";
    if (rt_step_reduces(step)) return "add";
    return step->verb == RT_COPY || step->verb == RT_NOTHING ? "copy" : "keep";
}

static void draw_box(const struct plan *plan, const struct plan_event *e, FILE *out)
{
    const uint32_t x = box_x(plan, e), y = box_y(e);
    const struct rt_step *s = &e->step;
    const bool by_source = s->verb == RT_SEND || s->verb == RT_RECV_REDUCE_SEND || s->verb == RT_COPY;
    const uint8_t buffer = by_source ? s->source : s->target;
    static const char *const buffers[] = { "in", "out", "scratch" };
    char words[256], chunks[64];
    plan_step_words(plan, s, words, sizeof words);
    plan_chunk_words(plan, buffer, by_source ? s->source_chunk : s->target_chunk, s, chunks, sizeof chunks);
    fprintf(out, "<g><title>rank %u, lane %u, step %u: %s</title>\n", e->rank, e->lane, e->index, words);
    fprintf(out, "<rect class=\"%s%s\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"6\"/>\n", verb_class(s),
            s->flags & RT_FINAL ? " final" : "", x, y, BOX_WIDTH, BOX_HEIGHT);
    fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"4\" height=\"%u\" rx=\"2\" fill=\"hsl(%u,62%%,48%%)\"/>\n", x + 5,
            y + 6, BOX_HEIGHT - 12, hue(plan, s));
    fprintf(out, "<text class=\"verb\" x=\"%u\" y=\"%u\">%s</text>\n", x + 15, y + 15, verb_words(s));
    fprintf(out, "<text class=\"chunk\" x=\"%u\" y=\"%u\">%s %s</text></g>\n", x + 15, y + 29, buffers[buffer], chunks);
}

/* From the bottom of one box to the top of another. */
static void draw_curve(const struct plan *plan, const struct plan_event *from, const struct plan_event *to,
                       const char *attributes, FILE *out)
{
    const uint32_t x1 = box_x(plan, from) + BOX_WIDTH / 2, y1 = box_y(from) + BOX_HEIGHT;
    const uint32_t x2 = box_x(plan, to) + BOX_WIDTH / 2, y2 = box_y(to) - 3, bend = (y2 - y1) / 2 + 4;
    fprintf(out, "<path %s d=\"M%u %uC%u %u %u %u %u %u\"/>\n", attributes, x1, y1, x1, y1 + bend, x2, y2 - bend,
            x2, y2);
}

static void draw_arrows(const struct plan *plan, const struct plan_event *events, const struct plan_event *e, FILE *out)
{
    char attributes[128];
    for (uint32_t k = 0; k < 2; k++) {
        if (e->sender[k] == RT_NONE) continue;
        const struct plan_event *sender = &events[e->sender[k]];
        snprintf(attributes, sizeof attributes,
                 "class=\"message\" stroke=\"hsl(%u,62%%,48%%)\" marker-end=\"url(#tip)\"",
                 hue(plan, &e->step));
        draw_curve(plan, sender, e, attributes, out);
    }
    if (e->after != RT_NONE) draw_curve(plan, &events[e->after], e, "class=\"wait\" marker-end=\"url(#tip)\"", out);
}

static void draw_ranks(const struct plan *plan, uint32_t bottom, FILE *out)
{
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const uint32_t x = rank_x(plan, r), middle = x + rank_width(plan) / 2;
        const uint32_t node = plan->layout ? plan->layout->node_of[r] : 0;
        fprintf(out, "<rect class=\"band\" x=\"%u\" y=\"70\" width=\"%u\" height=\"%u\" rx=\"10\"%s/>\n", x - 10,
                rank_width(plan) + 20, bottom - 74, node % 2 ? " style=\"fill:#f7f3ea\"" : "");
        fprintf(out, "<text class=\"rank\" x=\"%u\" y=\"%u\">rank %u", middle, plan->lanes > 1 ? 90 : 96, r);
        if (plan->layout) fprintf(out, ", node %u", node);
        fprintf(out, "%s</text>\n", r == plan->root ? " (root)" : "");
        for (uint32_t lane = 0; lane < plan->lanes; lane++) {
            const uint32_t at = x + lane * (BOX_WIDTH + LANE_GAP) + BOX_WIDTH / 2;
            fprintf(out, "<line class=\"rail\" x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\"/>\n", at, TOP - 6, at,
                    bottom - 14);
            if (plan->lanes > 1) fprintf(out, "<text class=\"lane\" x=\"%u\" y=\"106\">lane %u</text>\n", at, lane);
        }
    }
}

static void draw_legend(uint32_t y, FILE *out)
{
    static const struct { const char *kind, *words; uint32_t width; } entries[] = {
        { "send", "send", 60 },      { "add", "receive and add", 128 }, { "keep", "receive and keep", 134 },
        { "copy", "local copy", 96 },    { "add final", "completes the chunk", 150 },
    };
    uint32_t x = LEFT;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        fprintf(out, "<rect class=\"%s\" x=\"%u\" y=\"%u\" width=\"16\" height=\"12\" rx=\"3\"/>\n", entries[i].kind, x,
                y);
        fprintf(out, "<text class=\"sub\" x=\"%u\" y=\"%u\">%s</text>\n", x + 22, y + 10, entries[i].words);
        x += entries[i].width + 24;
    }
}

static void draw_head(const struct plan *plan, uint32_t rows, uint32_t width, uint32_t height, FILE *out)
{
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" height=\"%u\">\n", width,
            height, width, height);
    fprintf(out, "<title>%s %s among %u ranks</title>\n", ringtree_collective_name(plan->algorithm->collective),
            plan->algorithm->name, plan->nranks);
    fprintf(out, "%s<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" markerWidth=\"6\" "
            "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#5b6675\"/></marker></defs>\n", style);
    fprintf(out, "<rect class=\"paper\" width=\"%u\" height=\"%u\"/>\n", width, height);
    fprintf(out, "<text class=\"title\" x=\"%u\" y=\"32\">%s, %s</text>\n", LEFT,
            ringtree_collective_name(plan->algorithm->collective), plan->algorithm->name);
    fprintf(out, "<text class=\"sub\" x=\"%u\" y=\"54\">%u ranks, %u chunk%s, %u lane%s, %u rows; time runs down, "
            "colour is the chunk</text>\n", LEFT, plan->nranks, plan->chunks, plan->chunks == 1 ? "" : "s",
            plan->lanes, plan->lanes == 1 ? "" : "s", rows);
}

bool plan_draw(const struct plan *plan, FILE *out)
{
    uint32_t count, rows = 0;
    struct plan_event *events = plan_schedule(plan, &count);
    if (!events) return false;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].row >= rows) rows = events[i].row + 1;
    const uint32_t bottom = TOP + rows * ROW, least = 720, natural = rank_x(plan, plan->nranks);
    draw_head(plan, rows, natural > least ? natural : least, bottom + LEGEND, out);
    draw_ranks(plan, bottom, out);
    for (uint32_t i = 0; i < count; i++) draw_arrows(plan, events, &events[i], out);
    for (uint32_t i = 0; i < count; i++) draw_box(plan, &events[i], out);
    draw_legend(bottom + 20, out);
    fprintf(out, "</svg>\n");
    free(events);
    return true;
}
