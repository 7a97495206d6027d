/*
 * Two ways to copy, as memcpy() chooses between them by size: with stores that pass through the cache, which fetch the
 * target first (3 bytes of memory traffic per byte copied), and with non-temporal ones (2).
 */
#include "limits.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

bool copy_can_stream(void)
{
    return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2")))
static void copy_cached(unsigned char *target, const unsigned char *source, size_t bytes)
{
    for (size_t i = 0; i + LINE <= bytes; i += LINE) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(source + i));
        const __m256i high = _mm256_loadu_si256((const __m256i *)(source + i + LINE / 2));
        _mm256_storeu_si256((__m256i *)(target + i), low);
        _mm256_storeu_si256((__m256i *)(target + i + LINE / 2), high);
    }
    memcpy(target + bytes / LINE * LINE, source + bytes / LINE * LINE, bytes % LINE);
}

void copy_plain(void *target, const void *source, size_t bytes)
{
    if (copy_can_stream()) copy_cached(target, source, bytes);
    else memcpy(target, source, bytes);
}

__attribute__((target("avx2")))
void copy_streaming(void *target, const void *source, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)((const char *)source + i));
        const __m256i high = _mm256_loadu_si256((const __m256i *)((const char *)source + i + LINE / 2));
        _mm256_stream_si256((__m256i *)((char *)target + i), low);
        _mm256_stream_si256((__m256i *)((char *)target + i + LINE / 2), high);
    }
    _mm_sfence();
}
#else
bool copy_can_stream(void)
{
    return false;
}

void copy_plain(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}

void copy_streaming(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}
#endif
