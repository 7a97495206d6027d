/*
 * The same as JSON, with the keys of nccl-tests (file version 2; truth values are the strings "true" and "false", as
 * there). An existing file is kept: a number is appended to the name. Of the environment only RINGTREE_ settings are
 * written, without secrets.
 */
#include "perf.h"

#ifdef RINGTREE_JANSSON
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct report {
    FILE   *file;
    json_t *root, *results, *errors;
};

bool json_available(void)
{
    return true;
}

static json_t *truth(bool value)
{
    return json_string(value ? "true" : "false");
}

static json_t *now_text(void)
{
    char      text[32];
    time_t    now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
    return json_string(text);
}

/* Bytes that are not UTF-8 are left out. */
static json_t *any_string(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string("?");
}

static FILE *open_new(const char *path, char *name, size_t capacity)
{
    snprintf(name, capacity, "%s", path);
    FILE *file = fopen(name, "wxe");
    for (int i = 0; !file && errno == EEXIST && i < 10000; i++) {
        snprintf(name, capacity, "%s.%d", path, i);
        file = fopen(name, "wxe");
    }
    return file;
}

struct report *json_open(const struct options *options, char *why, size_t capacity)
{
    char           name[4096];
    struct report *report = calloc(1, sizeof(*report));
    FILE          *file = open_new(options->json_file, name, sizeof(name));
    if (!file || !report) {
        snprintf(why, capacity, "cannot create %s: %s", name, file ? "out of memory" : strerror(errno));
        free(report);
        if (file) fclose(file);
        return NULL;
    }
    printf("# Writing JSON output to %s\n", name);
    report->file = file;
    report->root = json_object();
    report->results = json_array();
    report->errors = json_array();
    return report;
}

static void add_setting(void *context, const char *entry)
{
    json_array_append_new(context, any_string(entry));
}

static json_t *config(const struct bench *bench, const struct rank_info *ranks)
{
    const struct options *o = bench->options;
    json_t *devices = json_array();
    for (uint32_t r = 0; r < bench->nranks; r++)
        json_array_append_new(devices, json_pack("{si si si ss si ss ss}", "rank", (int)r, "group", 0, "pid",
                                                 (int)ranks[r].pid, "hostname", ranks[r].host, "device",
                                                 (int)ranks[r].local_rank, "device_hex", ranks[r].cpus, "device_info",
                                                 "cpu"));
    json_t *config = json_pack("{si si sI sI si si si si si so so so so}", "nthreads", (int)o->threads, "ngpus",
                               (int)o->processes, "minimum_bytes", (json_int_t)o->min_bytes, "maximum_bytes",
                               (json_int_t)o->max_bytes, "warmup_iters", (int)o->warmup, "iterations",
                               (int)o->iterations, "aggregated_iterations", (int)o->aggregate, "validation",
                               (int)o->checks, "graph", 0, "blocking_collectives", truth(o->blocking),
                               "per_iter_timing", truth(o->percentiles), "parallel_init", truth(false), "devices",
                               devices);
    if (o->step_factor) json_object_set_new(config, "step_factor", json_integer((json_int_t)o->step_factor));
    else json_object_set_new(config, "step_bytes", json_integer((json_int_t)o->step_bytes));
    return config;
}

void json_head(struct report *report, const struct bench *bench, const struct rank_info *ranks)
{
    json_t *args = json_array(), *env = json_array();
    for (int i = 0; i < bench->options->argc; i++)
        json_array_append_new(args, any_string(bench->options->argv[i]));
    each_setting(add_setting, env);
    json_object_set_new(report->root, "version", json_integer(2));
    json_object_set_new(report->root, "start_time", now_text());
    json_object_set_new(report->root, "args", args);
    json_object_set_new(report->root, "env", env);
    json_object_set_new(report->root, "ringtree_version", json_string(ringtree_version()));
    json_object_set_new(report->root, "config", config(bench, ranks));
}

static json_t *side_object(const struct options *options, const struct result *side)
{
    if (!side->measured) return json_null();
    json_t *object = json_pack("{sf sf sf}", "time", side->time_us, "alg_bw", side->algbw, "bus_bw", side->busbw);
    json_object_set_new(object, "nwrong", options->checks ? json_real((double)side->wrong) : json_null());
    return object;
}

void json_row(struct report *report, const struct bench *bench, const struct row *row, const struct result sides[2])
{
    static const char *const per_iter[2] = { "out_of_place_per_iter", "in_place_per_iter" };
    const struct options *options = bench->options;
    char root[16];
    snprintf(root, sizeof(root), "%d", options->collective->rooted ? (int)row->root : -1);
    json_t *object = json_pack("{sI sI ss ss ss so so}", "size",
                               (json_int_t)row_bytes(options, row, bench->nranks), "count", (json_int_t)row->count,
                               "type", type_names[row->type], "redop", op_names[row->op], "root", root, "out_of_place",
                               side_object(options, &sides[0]), "in_place", side_object(options, &sides[1]));
    for (int i = 0; options->percentiles && i < 2; i++)
        if (sides[i].measured)
            json_object_set_new(object, per_iter[i],
                                json_pack("{sf sf sf}", "min_us", sides[i].min_us, "p50_us", sides[i].p50_us,
                                          "p99_us", sides[i].p99_us));
    json_object_set_new(object, "actual_iterations", json_integer(options->iterations));
    json_object_set_new(object, "experiment_name", json_string(""));
    json_array_append_new(report->results, object);
}

void json_coded(struct report *report, const struct bench *bench, const struct row *row, const struct coded *coded)
{
    const char *codec = ringtree_codec_name(coded->kind);
    json_t *object = json_pack("{sI sI ss ss ss ss sf sf sf sf}", "size",
                               (json_int_t)row_bytes(bench->options, row, bench->nranks), "count",
                               (json_int_t)row->count, "type", type_names[row->type], "redop", op_names[row->op],
                               "root", "-1", "codec", codec, "exact_time", coded->exact_us, "time",
                               coded->time_us, "bus_bw", coded->busbw, "wire_bytes_per_element", coded->wire_bytes);
    if (bench->options->checks) {
        json_object_set_new(object, "max_error", json_real(coded->max_error));
        json_object_set_new(object, "rms_error", json_real(coded->rms_error));
        json_object_set_new(object, "bound", coded->bounded ? json_real(coded->bound) : json_null());
        json_object_set_new(object, "within_bound", truth(coded->within));
    }
    json_array_append_new(report->results, object);
}

void json_error(struct report *report, const char *sentence)
{
    json_array_append_new(report->errors, any_string(sentence));
}

bool json_close(struct report *report, const struct bench *bench, double busbw)
{
    const struct options *options = bench->options;
    const uint64_t errors = bench->wrong + bench->outside;
    json_object_set_new(report->root, "results", report->results);
    json_object_set_new(report->root, "out_of_bounds",
                        json_pack("{sI so}", "count", (json_int_t)errors, "okay", truth(!errors)));
    json_object_set_new(report->root, "average_bus_bandwidth",
                        json_pack("{sf so}", "bandwidth", busbw, "okay",
                                  options->least_busbw > 0 ? truth(busbw >= options->least_busbw)
                                                           : json_string("unchecked")));
    json_object_set_new(report->root, "errors", report->errors);
    json_object_set_new(report->root, "end_time", now_text());
    bool written = !json_dumpf(report->root, report->file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    written = fputc('\n', report->file) != EOF && written;
    written = !fclose(report->file) && written;
    json_decref(report->root);
    free(report);
    return written;
}

#else

bool json_available(void)
{
    return false;
}

struct report *json_open(const struct options *options, char *why, size_t capacity)
{
    (void)options;
    snprintf(why, capacity, "this build has no JSON output (libjansson-dev was not found)");
    return NULL;
}

void json_head(struct report *report, const struct bench *bench, const struct rank_info *ranks)
{
    (void)report, (void)bench, (void)ranks;
}

void json_row(struct report *report, const struct bench *bench, const struct row *row, const struct result sides[2])
{
    (void)report, (void)bench, (void)row, (void)sides;
}

void json_coded(struct report *report, const struct bench *bench, const struct row *row, const struct coded *coded)
{
    (void)report, (void)bench, (void)row, (void)coded;
}

void json_error(struct report *report, const char *sentence)
{
    (void)report, (void)sentence;
}

bool json_close(struct report *report, const struct bench *bench, double busbw)
{
    (void)report, (void)bench, (void)busbw;
    return true;
}
#endif
