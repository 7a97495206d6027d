/* See sparse.h. */
#include "sparse.h"
#include "kernels.h"
#include "families.h"
#include <string.h>

/* How many of a group's elements are above the cut: ties are left out, they are few or all alike. */
static uint64_t above_cut(const unsigned char *values, size_t count, const struct rt_cut *cut)
{
    uint64_t marks[RT_TOPK_GROUP / 64] = { 0 }, above = 0;
    const size_t whole = count / 64 * 64;
    rt_codec_kernels()->mark(marks, values, whole, cut->magnitude + 1);
    for (size_t i = 0; i < whole / 64; i++) above += (uint64_t)__builtin_popcountll(marks[i]);
    for (size_t i = whole; i < count; i++) {
        uint32_t magnitude;
        memcpy(&magnitude, values + i * sizeof magnitude, sizeof magnitude);
        above += (magnitude & 0x7fffffff) > cut->magnitude;
    }
    return above;
}

static size_t group_count(size_t count, size_t first)
{
    return count - first < RT_TOPK_GROUP ? count - first : RT_TOPK_GROUP;
}

struct gradient {
    const unsigned char        *values;
    size_t                      count;
    const struct rt_cut        *cut;
    const struct rt_topk_found *found;
};

/* How many of the group at element `i`; of those that a selection found a few more, everywhere alike. */
static uint64_t kept_at(const struct gradient *all, size_t i)
{
    const size_t group = i / RT_TOPK_GROUP;
    if (all->found) return all->found->begin[group + 1] - all->found->begin[group];
    return above_cut(all->values + i * sizeof(float), group_count(all->count, i), all->cut);
}

void rt_sparse_wish(const void *values, size_t count, const struct rt_cut *cut, const struct rt_topk_found *found,
                    uint32_t nranks, uint64_t *wish)
{
    const struct gradient gradient = { values, count, cut, found };
    uint64_t all = 0, seen = 0;
    uint32_t next = 1;
    for (size_t i = 0; i < count; i += RT_TOPK_GROUP)
        all += kept_at(&gradient, i);
    wish[0] = 0;
    for (size_t i = 0; i < count && all; i += RT_TOPK_GROUP) {
        seen += kept_at(&gradient, i);
        for (; next < nranks && seen * nranks >= all * next; next++)
            wish[next] = i + RT_TOPK_GROUP < count ? i + RT_TOPK_GROUP : count;
    }
    /* with nothing above the cut, equal ranges */
    for (; next < nranks; next++)
        wish[next] = (uint64_t)((count + RT_TOPK_GROUP - 1) / RT_TOPK_GROUP * next / nranks * RT_TOPK_GROUP);
    for (next = 1; next < nranks; next++) wish[next] = wish[next] < count ? wish[next] : count;
    wish[nranks] = count;
}

static bool is_wish(const uint64_t *wish, uint64_t count, uint32_t nranks)
{
    bool right = wish[0] == 0 && wish[nranks] == count;
    for (uint32_t i = 0; i < nranks; i++)
        right &= wish[i] <= wish[i + 1] && (wish[i] % RT_TOPK_GROUP == 0 || wish[i] == count);
    return right;
}

ringtree_status rt_sparse_bounds(const uint64_t *wishes, uint64_t count, uint32_t nranks, uint64_t *bounds,
                                 struct rt_error *error)
{
    memset(bounds, 0, ((size_t)nranks + 1) * sizeof *bounds);
    for (uint32_t rank = 0; rank < nranks; rank++) {
        const uint64_t *wish = wishes + (size_t)rank * (nranks + 1);
        if (!is_wish(wish, count, nranks))
            return rt_fail(error, RINGTREE_MISMATCH, "topk: rank %" PRIu32 " would cut %" PRIu64
                           " elements where there are no ranges. Do all ranks give the same count?", rank, count);
        /* quotients and remainders apart, so that nothing overflows; at most a group's width is lost by that */
        for (uint32_t i = 0; i <= nranks; i++) bounds[i] += wish[i] / nranks;
    }
    for (uint32_t i = 0; i < nranks; i++) bounds[i] = bounds[i] / RT_TOPK_GROUP * RT_TOPK_GROUP;
    bounds[nranks] = count;
    return RINGTREE_OK;
}
