/* The path of any CPU: 16-byte vectors, which the compiler splits where there are none. */
#define RT_BYTES 16
#define RT_TABLE rt_codec_kernels_scalar
#define RT_NAME "scalar"
#include "kernels.inc"
