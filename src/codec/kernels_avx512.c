/* The path of x86-64 CPUs with AVX-512 F, BW, DQ and VL. */
#define RT_BYTES 64
#define RT_TABLE rt_codec_kernels_avx512
#define RT_NAME "avx512"
#if defined(__x86_64__)
#include "kernels.inc"
#endif
