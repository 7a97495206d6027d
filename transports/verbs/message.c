/* See message.h. */
#include "message.h"
#include "summary.h"
#include "words.h"
#include <endian.h>
#include <string.h>

#define END_BYTES   RT_VERBS_END_BYTES
#define HELLO_BYTES 28
#define QUEUE_BYTES (9 + END_BYTES)
static const unsigned char announcement_begins[3] = { 'R', 'V', RT_VERBS_VERSION };

static void put16(unsigned char **to, uint16_t v)
{
    v = htole16(v);
    memcpy(*to, &v, sizeof(v));
    *to += sizeof(v);
}

static void put32(unsigned char **to, uint32_t v)
{
    v = htole32(v);
    memcpy(*to, &v, sizeof(v));
    *to += sizeof(v);
}

static void put64(unsigned char **to, uint64_t v)
{
    v = htole64(v);
    memcpy(*to, &v, sizeof(v));
    *to += sizeof(v);
}

static uint16_t get16(const unsigned char **from)
{
    uint16_t v;
    memcpy(&v, *from, sizeof(v));
    *from += sizeof(v);
    return le16toh(v);
}

static uint32_t get32(const unsigned char **from)
{
    uint32_t v;
    memcpy(&v, *from, sizeof(v));
    *from += sizeof(v);
    return le32toh(v);
}

static uint64_t get64(const unsigned char **from)
{
    uint64_t v;
    memcpy(&v, *from, sizeof(v));
    *from += sizeof(v);
    return le64toh(v);
}

static void put_end(unsigned char **to, const struct rt_verbs_end *end)
{
    memcpy(*to, end->gid, 16);
    *to += 16;
    *(*to)++ = end->layer;
    *(*to)++ = end->prefix;
    *(*to)++ = end->mtu;
    *(*to)++ = 0;
    put16(to, end->lid);
}

static bool get_end(const unsigned char **from, struct rt_verbs_end *end)
{
    memcpy(end->gid, *from, 16);
    *from += 16;
    end->layer = *(*from)++;
    end->prefix = *(*from)++;
    end->mtu = *(*from)++;
    const bool zero = *(*from)++ == 0;
    end->lid = get16(from);
    return zero && (end->layer == RT_VERBS_INFINIBAND || end->layer == RT_VERBS_ETHERNET) && end->prefix <= 128 &&
           rt_verbs_mtu_bytes(end->mtu) != 0;
}

void rt_verbs_end_put(const struct rt_verbs_end *end, unsigned char to[RT_VERBS_END_BYTES])
{
    put_end(&to, end);
}

bool rt_verbs_meets(const uint8_t mine[RT_VERBS_END_BYTES], const uint8_t theirs[RT_VERBS_END_BYTES])
{
    struct rt_verbs_end a, b;
    return get_end(&mine, &a) && get_end(&theirs, &b) && rt_verbs_ends_meet(&a, &b) > 0;
}

void rt_verbs_announcement_put(const struct rt_verbs_announcement *a, unsigned char to[RT_VERBS_ANNOUNCEMENT])
{
    memset(to, 0, RT_VERBS_ANNOUNCEMENT);
    memcpy(to, announcement_begins, sizeof(announcement_begins));
    to[3] = (unsigned char)a->ports;
    unsigned char *at = to + 4;
    for (uint32_t i = 0; i < a->ports && i < RT_VERBS_PORTS; i++) put_end(&at, &a->end[i]);
}

bool rt_verbs_announcement_get(struct rt_verbs_announcement *a, const unsigned char from[RT_VERBS_ANNOUNCEMENT])
{
    memset(a, 0, sizeof(*a));
    if (memcmp(from, announcement_begins, sizeof(announcement_begins)) != 0 || from[3] > RT_VERBS_PORTS) return false;
    const unsigned char *at = from + 4;
    for (uint32_t i = 0; i < from[3]; i++)
        if (!get_end(&at, &a->end[i])) return false;
    a->ports = from[3];
    return true;
}

/* ---- messages: 'R', 'V', version, kind, length (2), zero (2) */

static size_t finish(unsigned char *to, const unsigned char *end, enum rt_verbs_message kind)
{
    const size_t length = (size_t)(end - to);
    memcpy(to, announcement_begins, sizeof(announcement_begins));
    to[3] = (unsigned char)kind;
    unsigned char *at = to + 4;
    put16(&at, (uint16_t)length);
    put16(&at, 0);
    return length;
}

size_t rt_verbs_hello_put(const struct rt_verbs_hello *hello, unsigned char *to)
{
    unsigned char *at = to + RT_VERBS_HEADER;
    put32(&at, hello->epoch);
    put32(&at, hello->slot_bytes);
    put64(&at, hello->arrived);
    put64(&at, hello->released);
    put32(&at, hello->queues);
    for (uint32_t i = 0; i < hello->queues; i++) {
        put32(&at, hello->queue[i].qp);
        put32(&at, hello->queue[i].psn);
        *at++ = hello->queue[i].port;
        put_end(&at, &hello->queue[i].end);
    }
    return finish(to, at, RT_VERBS_HELLO);
}

static const char *get_hello(struct rt_verbs_hello *hello, const unsigned char *at, size_t bytes)
{
    if (bytes < HELLO_BYTES) return "it is too short";
    hello->epoch = get32(&at);
    hello->slot_bytes = get32(&at);
    hello->arrived = get64(&at);
    hello->released = get64(&at);
    hello->queues = get32(&at);
    if (hello->queues > RT_VERBS_QUEUES || bytes != HELLO_BYTES + hello->queues * QUEUE_BYTES)
        return "its length is wrong";
    if (hello->released > hello->arrived || hello->arrived - hello->released > RT_VERBS_RING)
        return "more slices lie there than there are slots";
    for (uint32_t i = 0; i < hello->queues; i++) {
        struct rt_verbs_queue_end *queue = &hello->queue[i];
        queue->qp = get32(&at);
        queue->psn = get32(&at);
        queue->port = *at++;
        if (queue->qp >> 24 || queue->psn >> 24) return "a queue pair's number has more than 24 bits";
        if (queue->port >= RT_VERBS_PORTS) return "it names a port beyond the last";
        if (!get_end(&at, &queue->end)) return "a port's link layer, subnet or MTU is none";
    }
    return NULL;
}

size_t rt_verbs_rings_put(const struct rt_verbs_rings *rings, unsigned char *to)
{
    unsigned char *at = to + RT_VERBS_HEADER;
    put64(&at, rings->address);
    put32(&at, rings->ports);
    for (uint32_t i = 0; i < RT_VERBS_PORTS; i++) put32(&at, i < rings->ports ? rings->key[i] : 0);
    return finish(to, at, RT_VERBS_RINGS);
}

static const char *get_rings(struct rt_verbs_rings *rings, const unsigned char *at, size_t bytes)
{
    if (bytes != 12 + 4 * RT_VERBS_PORTS) return "its length is wrong";
    rings->address = get64(&at);
    rings->ports = get32(&at);
    for (uint32_t i = 0; i < RT_VERBS_PORTS; i++) rings->key[i] = get32(&at);
    return rings->ports == 0 || rings->ports > RT_VERBS_PORTS ? "it names more ports than there can be" : NULL;
}

size_t rt_verbs_ready_put(uint32_t epoch, unsigned char *to)
{
    unsigned char *at = to + RT_VERBS_HEADER;
    put32(&at, epoch);
    return finish(to, at, RT_VERBS_READY);
}

static const char *get_body(struct rt_verbs_heard *heard, const unsigned char *at, size_t bytes)
{
    switch (heard->kind) {
    case RT_VERBS_HELLO: return get_hello(&heard->hello, at, bytes);
    case RT_VERBS_RINGS: return get_rings(&heard->rings, at, bytes);
    case RT_VERBS_READY:
        if (bytes == 4) heard->epoch = get32(&at);
        return bytes == 4 ? NULL : "its length is wrong";
    default: return "it is of no kind that this version knows";
    }
}

int rt_verbs_message_get(struct rt_verbs_heard *heard, const unsigned char *from, size_t bytes, const char **why)
{
    if (bytes < RT_VERBS_HEADER) return 0;
    const unsigned char *at = from + 4;
    const size_t length = get16(&at);
    *why = "it does not begin as a message of this version does";
    if (memcmp(from, announcement_begins, sizeof(announcement_begins)) != 0 || get16(&at) != 0) return -1;
    *why = "its length is wrong";
    if (length < RT_VERBS_HEADER || length > RT_VERBS_MOST) return -1;
    if (bytes < length) return 0;
    memset(heard, 0, sizeof(*heard));
    heard->kind = (enum rt_verbs_message)from[3];
    *why = get_body(heard, from + RT_VERBS_HEADER, length - RT_VERBS_HEADER);
    return *why ? -1 : (int)length;
}

/* ---- which queue pairs go together */

/* The ports that a hello names, once each, in its order. */
static uint32_t ports_of(const struct rt_verbs_hello *hello, struct rt_verbs_end *end, uint8_t *port)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hello->queues; i++) {
        uint32_t k = 0;
        while (k < count && port[k] != hello->queue[i].port) k++;
        if (k < count || count == RT_VERBS_PORTS) continue;
        port[count] = hello->queue[i].port;
        end[count++] = hello->queue[i].end;
    }
    return count;
}

/* The queue number `nth` of that port, or -1. */
static int queue_of(const struct rt_verbs_hello *hello, uint8_t port, uint32_t nth)
{
    for (uint32_t i = 0; i < hello->queues; i++)
        if (hello->queue[i].port == port && nth-- == 0) return (int)i;
    return -1;
}

uint32_t rt_verbs_meet(const struct rt_verbs_hello *of_lower, const struct rt_verbs_hello *of_upper,
                       uint8_t lower[RT_VERBS_QUEUES], uint8_t upper[RT_VERBS_QUEUES])
{
    struct rt_verbs_end lower_end[RT_VERBS_PORTS], upper_end[RT_VERBS_PORTS];
    uint8_t lower_port[RT_VERBS_PORTS], upper_port[RT_VERBS_PORTS];
    int pair[RT_VERBS_PORTS];
    const uint32_t lowers = ports_of(of_lower, lower_end, lower_port);
    const uint32_t uppers = ports_of(of_upper, upper_end, upper_port);
    uint32_t count = 0;
    rt_verbs_match(lower_end, lowers, upper_end, uppers, pair);
    for (uint32_t nth = 0; nth < RT_VERBS_QUEUES; nth++)
        for (uint32_t i = 0; i < lowers && count < RT_VERBS_QUEUES; i++) {
            if (pair[i] < 0) continue;
            const int a = queue_of(of_lower, lower_port[i], nth), b = queue_of(of_upper, upper_port[pair[i]], nth);
            if (a < 0 || b < 0) continue;
            lower[count] = (uint8_t)a;
            upper[count++] = (uint8_t)b;
        }
    return count;
}
