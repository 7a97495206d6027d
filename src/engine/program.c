/* A program: the steps of one rank, computed once from the formula and kept. Reading one costs 1 ns, computing 8 ns. */
#include "engine.h"
#include "base/log.h"
#include <stdlib.h>

static struct rt_shape program_shape(const struct rt_engine *engine, uint32_t root, uint32_t lane)
{
    return (struct rt_shape){ .nranks = engine->fabric.nranks, .rank = engine->fabric.rank, .root = root, .lane = lane,
                              .layout = &engine->layout };
}

void rt_program_free(struct rt_program *program)
{
    for (uint32_t lane = 0; lane < RT_MAX_LANES; lane++) {
        free(program->steps[lane]);
        free(program->memory[lane]);
    }
    free(program->senders);
    free(program);
}

static bool lane_compute(struct rt_engine *engine, struct rt_program *program, uint32_t lane)
{
    const struct rt_algorithm *algorithm = program->algorithm;
    const struct rt_shape shape = program_shape(engine, program->root, lane);
    const uint32_t count = algorithm->steps(&shape);
    program->nsteps[lane] = count;
    program->scratch[lane] = algorithm->scratch ? algorithm->scratch(&shape) : 0;
    program->steps[lane] = calloc(count + 1, sizeof *program->steps[lane]);
    if (!program->steps[lane]) return false;
    for (uint32_t i = 0; i < count; i++) program->steps[lane][i] = algorithm->step(&shape, i);
    return true;
}

static bool sender_add(struct rt_program *program, struct rt_wire *wire)
{
    for (uint32_t i = 0; i < program->nsenders; i++)
        if (program->senders[i] == wire) return true;
    if (program->nsenders % 16 == 0) {
        struct rt_wire **more = realloc(program->senders, (program->nsenders + 16) * sizeof *more);
        if (!more) return false;
        program->senders = more;
    }
    program->senders[program->nsenders++] = wire;
    return true;
}

static ringtree_status lane_connect(struct rt_engine *engine, struct rt_program *program, uint32_t lane,
                                    struct rt_error *error)
{
    for (uint32_t i = 0; i < program->nsteps[lane]; i++) {
        const struct rt_step *step = &program->steps[lane][i];
        const uint32_t peers[4] = { step->from, step->from2, step->to, step->to2 };
        for (uint32_t k = 0; k < 4; k++) {
            if (peers[k] == RT_NONE) continue;
            ringtree_status status = rt_wire_open(engine, k >= 2, lane, peers[k], error);
            if (status != RINGTREE_OK) return status;
            if (k >= 2 && !sender_add(program, rt_wire(engine, true, lane, peers[k])))
                return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for a plan", engine->fabric.rank);
        }
    }
    return RINGTREE_OK;
}

/* Scratch holds one slice of each scratch chunk; a slice times max_span fits a slot. */
static bool lane_scratch(struct rt_engine *engine, struct rt_program *program, uint32_t lane)
{
    const size_t bytes = (size_t)program->scratch[lane] * engine->slot_bytes / program->max_span + 64;
    if (!engine->bounce[lane]) engine->bounce[lane] = aligned_alloc(64, (engine->slot_bytes + 63) / 64 * 64);
    if (!engine->bounce[lane]) return false;
    program->memory[lane] = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return program->memory[lane] != NULL;
}

static ringtree_status program_make(struct rt_engine *engine, struct rt_program *program, struct rt_error *error)
{
    const struct rt_shape shape = program_shape(engine, program->root, 0);
    program->lanes = program->algorithm->lanes(&shape);
    program->chunks = program->algorithm->chunks(&shape);
    program->max_span = program->algorithm->max_span ? program->algorithm->max_span(&shape) : 1;
    if (program->lanes > RT_LANE_ALL_TO_ALL_V || program->max_span == 0 || program->chunks == 0)
        return rt_fail(error, RINGTREE_INTERNAL, "algorithm %s has a bad shape", program->algorithm->name);
    if (engine->slot_bytes / program->max_span < sizeof(uint64_t))
        return rt_fail(error, RINGTREE_UNSUPPORTED,
                       "algorithm %s sends %u elements at once, more than a slot of %zu bytes "
                       "holds; raise RINGTREE_TCP_SLOT_BYTES or choose another by RINGTREE_ALGORITHM",
                       program->algorithm->name, program->max_span, engine->slot_bytes);
    for (uint32_t lane = 0; lane < program->lanes; lane++) {
        if (!lane_compute(engine, program, lane) || !lane_scratch(engine, program, lane))
            return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for a plan", engine->fabric.rank);
        ringtree_status status = lane_connect(engine, program, lane, error);
        if (status != RINGTREE_OK) return status;
    }
    program->plain = rt_program_is_plain(program);
    return RINGTREE_OK;
}

ringtree_status rt_engine_program(struct rt_engine *engine, const struct rt_algorithm *algorithm, uint32_t root,
                                  const struct rt_program **result, struct rt_error *error)
{
    for (const struct rt_program *known = engine->programs; known; known = known->next)
        if (known->algorithm == algorithm && known->root == root) {
            *result = known;
            return RINGTREE_OK;
        }
    struct rt_program *program = calloc(1, sizeof *program);
    if (!program) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for a plan", engine->fabric.rank);
    program->algorithm = algorithm;
    program->root = root;
    ringtree_status status = program_make(engine, program, error);
    if (status != RINGTREE_OK) {
        rt_program_free(program);
        return status;
    }
    program->next = engine->programs;
    engine->programs = program;
    rt_log(RT_LOG_INFO, "%s by %s: %u lanes, %u chunks, %u links to send on",
           ringtree_collective_name(algorithm->collective), algorithm->name, program->lanes, program->chunks,
           program->nsenders);
    *result = program;
    return RINGTREE_OK;
}
