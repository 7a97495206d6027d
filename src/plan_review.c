/*
 * Plans reviewed while a program runs (RINGTREE_REVIEW_EVERY). Each rank keeps, with each plan, how long blocking calls
 * took beside what was predicted. At the same call of all ranks they exchange this; the least ratio over the ranks
 * counts, since who comes early to a call waits for the others, and a call that waited says nothing of the links.
 */
#include "base/log.h"
#include "comm.h"
#include <stdlib.h>

#define ENOUGH 8   /* calls of a plan before it is judged */
#define OFF    2.0f

struct seen {
    float ratio[RINGTREE_COLLECTIVE_COUNT][RT_PLANS_KEPT]; /* mean; 0: not enough calls */
};

void rt_review_note(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root, double seconds)
{
    struct rt_kept_plan *kept = rt_plan_kept(comm, collective, bytes, root);
    if (!kept->known || kept->bytes != bytes || kept->root != root || !(kept->plan.seconds > 0)) return;
    kept->seen++;
    kept->ratio += (float)(seconds / kept->plan.seconds);
}

static void collect(const ringtree_comm *comm, struct seen *mine)
{
    for (uint32_t c = 0; c < RINGTREE_COLLECTIVE_COUNT; c++)
        for (uint32_t k = 0; k < RT_PLANS_KEPT; k++) {
            const struct rt_kept_plan *kept = &comm->planner.kept[c][k];
            mine->ratio[c][k] = kept->seen >= ENOUGH ? kept->ratio / (float)kept->seen : 0;
        }
}

/* The plans kept are the same on all ranks, as they made the same calls. */
static bool change(ringtree_comm *comm, uint32_t c, uint32_t k, float ratio)
{
    const struct rt_kept_plan *kept = &comm->planner.kept[c][k];
    const ringtree_collective carried = c == RINGTREE_BARRIER ? RINGTREE_ALL_REDUCE : (ringtree_collective)c;
    if (!kept->known || ratio <= 0 || (ratio < OFF && ratio > 1 / OFF)) return false;
    rt_log(RT_LOG_INFO, "%s of %zu bytes by %s takes %.2g times as long as predicted: its cost is corrected",
           ringtree_collective_name((ringtree_collective)c), kept->bytes,
           kept->plan.algorithm ? kept->plan.algorithm->name : "shared", (double)ratio);
    rt_cost_correct(&comm->planner.costs, &comm->planner.sites, rt_cost_way(carried, kept->plan.algorithm), kept->bytes,
                    (double)ratio);
    return true;
}

static void judge(ringtree_comm *comm, const struct seen *all)
{
    bool changed = false;
    for (uint32_t c = 0; c < RINGTREE_COLLECTIVE_COUNT; c++)
        for (uint32_t k = 0; k < RT_PLANS_KEPT; k++) {
            float least = all[0].ratio[c][k];
            for (uint32_t r = 1; r < comm->nranks; r++)
                if (all[r].ratio[c][k] < least) least = all[r].ratio[c][k];
            changed |= change(comm, c, k, least);
        }
    if (changed) rt_plan_forget(comm);
}

struct exchange {
    ringtree_comm  *comm;
    struct seen     mine, *all;
    ringtree_status status;
};

static void gather(void *context)
{
    struct exchange *x = context;
    x->status = rt_control_all_gather(x->comm->control, &x->mine, sizeof x->mine, x->all, &x->comm->error);
}

ringtree_status rt_review(ringtree_comm *comm)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct seen *all = calloc(comm->nranks, sizeof *all);
    ringtree_status status = RINGTREE_NO_MEMORY;
    if (x && all) {
        x->comm = comm;
        x->all = all;
        collect(comm, &x->mine);
        if (comm->nranks > 1) rt_engine_beside(comm->engine, gather, x);
        status = x->status;
        if (status == RINGTREE_OK && comm->nranks > 1) judge(comm, all);
    } else {
        rt_fail(&comm->error, status, "rank %u: no memory to review plans", comm->rank);
    }
    free(all);
    free(x);
    return status;
}
