/* The path of x86-64 CPUs with AVX2. */
#define RT_BYTES 32
#define RT_TABLE rt_codec_kernels_avx2
#define RT_NAME "avx2"
#if defined(__x86_64__)
#include "kernels.inc"
#endif
