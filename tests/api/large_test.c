/* More than 2^31 elements in one call. Needs 10 GiB; skipped, with the reason, where there is less. */
#include "ranks.h"
#include "test.h"

static const size_t many = ((size_t)1 << 31) + 5;

static uint64_t available_mib(void)
{
    char     line[256];
    uint64_t kib = 0;
    FILE    *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    if (file) fclose(file);
    return kib >> 10;
}

static void add_many(struct rank *self)
{
    int8_t *x = malloc(many);
    if (!x) abort();
    for (size_t i = 0; i < many; i++) x[i] = (int8_t)(i % 53 + self->rank);
    CHECK_THAT(ringtree_all_reduce(self->comm, x, x, many, RINGTREE_INT8, RINGTREE_SUM, NULL) == RINGTREE_OK, "%s",
               ringtree_last_error(self->comm));
    for (size_t i = 0; i < many; i++)
        if (x[i] != (int8_t)(2 * (i % 53) + 1)) { CHECK_THAT(false, "element %zu is %d", i, x[i]); break; }
    free(x);
}

TEST(more_than_two_to_the_31_elements_are_added)
{
    if (available_mib() < 12 << 10) SKIP("12 GiB of memory are needed, %" PRIu64 " MiB are available", available_mib());
    RANKS(add_many, .ranks = 2, .processes = 2, .wait_s = 280, .timeout_ms = 120000);
}

TEST_MAIN
