/*
 * Two ranks that exchange slices, driven in turn by one thread as the engine drives links: whoever has sent all that it
 * may asks for what it awaits, and asks its sending end only while that has not counted everything as sent.
 */
#include "transports/conformance.h"

struct exchange {
    struct rt_fabric *fabric; /* of both ranks */
    uint64_t          slices; /* each way */
    uint64_t          seed;   /* of their lengths, and who is driven when */
    /* Called after every slice that came, with how many came in all. */
    void (*trouble)(struct exchange *exchange, uint64_t came);
    struct rt_link   *out[2], *in[2]; /* of rank 0 and rank 1 */
    uint64_t          random;
    void             *context; /* of trouble() */
};

/* NULL: all came, in order and whole. Else what is wrong. The links are open until exchange_close(). */
const char *exchange_run(struct exchange *exchange);
void exchange_close(struct exchange *exchange);
