/* The cache of registered memory: what is kept, what makes room; memory that went away is never used again. */
#include "test.h"
#include "verbs/cache.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE RT_VERBS_PIECE

struct world {
    struct rt_verbs_cache cache;
    uint32_t              registered, refused; /* now; so often, when it refuses */
    bool                  refuses;
};

static void *count(void *context, void *at, size_t bytes)
{
    struct world *w = context;
    CHECK((uintptr_t)at % 4096 == 0 && bytes % 4096 == 0 && bytes <= 2 * PIECE);
    if (w->refuses) return w->refused++, NULL;
    w->registered++;
    return w;
}

static void uncount(void *context, void *registered)
{
    struct world *w = context;
    CHECK(registered == w);
    w->registered--;
}

static bool start(struct world *w, const char **why)
{
    memset(w, 0, sizeof(*w));
    w->cache.register_ = count;
    w->cache.deregister = uncount;
    w->cache.context = w;
    return rt_verbs_cache_open(&w->cache, why);
}

#define START(w)                                                                                                       \
    const char *why;                                                                                                   \
    struct world w;                                                                                                    \
    if (!start(&w, &why)) SKIP("%s", why)

static unsigned char *map(void *at, size_t bytes)
{
    unsigned char *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0),
                                 -1, 0);
    if (memory == MAP_FAILED) abort();
    memset(memory, 1, bytes);
    return memory;
}

/* Found, and given back at once. */
static bool find(struct world *w, const void *at, size_t bytes)
{
    struct rt_verbs_piece *piece = rt_verbs_cache_find(&w->cache, at, bytes);
    if (piece) rt_verbs_cache_release(piece);
    return piece != NULL;
}

TEST(memory_is_registered_once_and_then_found)
{
    START(w);
    unsigned char *memory = map(NULL, 3 * PIECE);
    for (int i = 0; i < 100; i++) CHECK(find(&w, memory + PIECE + 4096 * (size_t)(i % 3), 16384));
    CHECK(w.registered <= 2);
    rt_verbs_cache_close(&w.cache);
    CHECK_EQ(w.registered, 0);
    munmap(memory, 3 * PIECE);
}

TEST(memory_that_was_unmapped_and_mapped_again_is_registered_anew)
{
    START(w);
    unsigned char *memory = map(NULL, PIECE);
    for (int i = 0; i < 200; i++) {
        struct rt_verbs_piece *piece = rt_verbs_cache_find(&w.cache, memory, 65536);
        CHECK(piece && !piece->gone);
        munmap(memory, PIECE);
        map(memory, PIECE);
        struct rt_verbs_piece *next = rt_verbs_cache_find(&w.cache, memory, 65536);
        CHECK(piece && piece->gone);
        CHECK(next && next != piece && !next->gone);
        if (piece) rt_verbs_cache_release(piece);
        if (next) rt_verbs_cache_release(next);
    }
    CHECK(w.registered <= 2);
    rt_verbs_cache_close(&w.cache);
    CHECK_EQ(w.registered, 0);
    munmap(memory, PIECE);
}

TEST(memory_given_back_by_madvise_or_moved_is_noticed)
{
    START(w);
    unsigned char *memory = map(NULL, PIECE);
    struct rt_verbs_piece *piece = rt_verbs_cache_find(&w.cache, memory, 65536);
    madvise(memory + 4096, 4096, MADV_DONTNEED);
    while (atomic_load(&w.cache.reading)) continue;
    CHECK(piece && piece->gone);
    if (piece) rt_verbs_cache_release(piece);
    piece = rt_verbs_cache_find(&w.cache, memory, 65536);
    unsigned char *moved = mremap(memory, PIECE, 2 * PIECE, MREMAP_MAYMOVE);
    while (atomic_load(&w.cache.reading)) continue;
    CHECK(moved == memory || (piece && piece->gone));
    if (piece) rt_verbs_cache_release(piece);
    rt_verbs_cache_close(&w.cache);
    munmap(moved, 2 * PIECE);
}

/* A child that holds on to the watching would make every unmapping here wait for it. */
TEST(a_forked_child_that_lives_on_holds_up_no_unmapping_after_the_end)
{
    START(w);
    unsigned char *memory = map(NULL, PIECE);
    int alive[2];
    CHECK(find(&w, memory, 65536));
    CHECK_EQ(pipe(alive), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        close(alive[1]);
        _exit(read(alive[0], &byte, 1) < 0); /* lives until its parent unmapped, or ended */
    }
    rt_verbs_cache_close(&w.cache);
    CHECK_EQ(munmap(memory, PIECE), 0);
    close(alive[0]);
    close(alive[1]);
    CHECK_EQ(waitpid(child, NULL, 0), child);
}

TEST(what_was_unused_for_longest_makes_room)
{
    START(w);
    unsigned char *memory = map(NULL, (RT_VERBS_PIECES + 3) * PIECE);
    unsigned char *first = memory + PIECE - (uintptr_t)memory % PIECE;
    for (size_t i = 0; i < RT_VERBS_PIECES; i++) CHECK(find(&w, first + i * PIECE, 16384));
    CHECK(find(&w, first, 16384)); /* used just now */
    CHECK_EQ(w.registered, RT_VERBS_PIECES);
    CHECK(find(&w, first + RT_VERBS_PIECES * PIECE, 16384));
    CHECK_EQ(w.registered, RT_VERBS_PIECES);
    bool kept = false, gone = true;
    for (int i = 0; i < RT_VERBS_PIECES; i++) {
        kept |= w.cache.piece[i].begin == (uintptr_t)first;
        gone &= w.cache.piece[i].begin != (uintptr_t)first + PIECE;
    }
    CHECK(kept && gone);
    rt_verbs_cache_close(&w.cache);
    munmap(memory, (RT_VERBS_PIECES + 3) * PIECE);
}

TEST(pieces_in_use_stay_and_more_are_copied)
{
    START(w);
    unsigned char *memory = map(NULL, (RT_VERBS_PIECES + 3) * PIECE);
    unsigned char *first = memory + PIECE - (uintptr_t)memory % PIECE;
    struct rt_verbs_piece *held[RT_VERBS_PIECES];
    for (size_t i = 0; i < RT_VERBS_PIECES; i++) held[i] = rt_verbs_cache_find(&w.cache, first + i * PIECE, 16384);
    CHECK(!find(&w, first + RT_VERBS_PIECES * PIECE, 16384));
    for (size_t i = 0; i < RT_VERBS_PIECES; i++) rt_verbs_cache_release(held[i]);
    CHECK(find(&w, first + RT_VERBS_PIECES * PIECE, 16384));
    rt_verbs_cache_close(&w.cache);
    munmap(memory, (RT_VERBS_PIECES + 3) * PIECE);
}

TEST(memory_of_files_is_copied_and_so_is_what_the_device_refuses)
{
    START(w);
    const int file = memfd_create("test", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(file, (off_t)PIECE), 0);
    unsigned char *shared = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < 10; i++) CHECK(!find(&w, shared, 65536));
    CHECK_EQ(w.registered, 0);
    w.refuses = true;
    unsigned char *memory = map(NULL, PIECE);
    for (int i = 0; i < 10; i++) CHECK(!find(&w, memory, 65536));
    CHECK_THAT(w.refused <= 2, "asked %u times", w.refused);
    rt_verbs_cache_close(&w.cache);
    munmap(shared, PIECE);
    munmap(memory, PIECE);
    close(file);
}

TEST(without_a_watcher_everything_is_copied)
{
    struct world w = { .cache = { .register_ = count, .watcher = -1, .stop = -1 } };
    int somewhere[10000] = { 0 };
    CHECK(!find(&w, somewhere, sizeof(somewhere)));
    rt_verbs_cache_close(&w.cache);
}

TEST_MAIN
