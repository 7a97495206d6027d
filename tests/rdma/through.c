/* See through.h. */
#include "through.h"
#include "verbs/verbs.h"

const char *through(struct pair *pair, void (*trouble)(struct pair *pair), uint64_t slices)
{
    static unsigned char memories[RT_VERBS_RING][100000];
    const void *data = NULL;
    struct rt_frame got;
    struct rt_error error = { 0 };
    uint64_t sent = 0, given = 0;
    const uint64_t end = rt_now_ns(&rt_system_clock) + conformance_patience_ns;
    while (given < slices) {
        const uint32_t bytes = sent % 3 ? 100000 : 60;
        const struct rt_frame frame = pair_frame(sent, bytes), expect = pair_frame(given, given % 3 ? 100000 : 60);
        if (sent < slices && sent - given < RT_VERBS_RING) {
            unsigned char *memory = memories[sent % RT_VERBS_RING];
            pair_fill(memory, sent, bytes);
            const ringtree_status status = pair->transport->send(pair->out, &frame, memory, &error);
            if (status > RINGTREE_IN_PROGRESS) return wrong("send: %s", error.text);
            if (status == RINGTREE_OK && ++sent == slices / 2) trouble(pair);
        }
        pair->transport->sent(pair->out, NULL);
        const ringtree_status status =
            pair->transport->recv(pair->in, &expect, NULL, expect.bytes, &got, &data, &error);
        if (status > RINGTREE_IN_PROGRESS) return wrong("recv: %s", error.text);
        if (status == RINGTREE_OK) {
            if (!data || !pair_filled(data, given, expect.bytes)) return wrong("slice %" PRIu64 " is broken", given);
            pair->transport->release(pair->in);
            given++;
        }
        if (rt_now_ns(&rt_system_clock) > end) return wrong("it stands still at %" PRIu64, given);
    }
    return NULL;
}
