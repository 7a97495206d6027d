/* rt_copy(), and the size of an element. */
#include "reduce.h"
#include "kernels.h"
#include <string.h>

size_t rt_element_bytes(ringtree_type type)
{
    static const uint8_t bytes[RINGTREE_TYPE_COUNT] = {
        [RINGTREE_INT8] = 1,    [RINGTREE_UINT8] = 1,    [RINGTREE_INT32] = 4,        [RINGTREE_UINT32] = 4,
        [RINGTREE_INT64] = 8,   [RINGTREE_UINT64] = 8,   [RINGTREE_FLOAT16] = 2,      [RINGTREE_FLOAT32] = 4,
        [RINGTREE_FLOAT64] = 8, [RINGTREE_BFLOAT16] = 2, [RINGTREE_FLOAT8_E4M3] = 1,  [RINGTREE_FLOAT8_E5M2] = 1,
    };
    return bytes[type];
}
void rt_copy(void *target, const void *source, size_t bytes) { memcpy(target, source, bytes); }
