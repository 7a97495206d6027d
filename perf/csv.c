/* One line per row of the table, for spreadsheets: times in microseconds, bandwidths in GB/s. */
#include "perf.h"

FILE *csv_open(const struct options *options)
{
    FILE *file = fopen(options->csv_file, "we");
    if (!file) return NULL;
    fprintf(file, "size,count,type,redop,root");
    if (options->coded) {
        fprintf(file, ",codec,exact_time_us,time_us,busbw_gbs,wire_bytes_per_element,max_error,rms_error,bound\n");
        return file;
    }
    for (int i = 0; i < 2; i++) {
        const char *side = i ? "in_place" : "out_of_place";
        fprintf(file, ",%s_time_us,%s_algbw_gbs,%s_busbw_gbs,%s_wrong", side, side, side, side);
        if (options->percentiles) fprintf(file, ",%s_min_us,%s_p50_us,%s_p99_us", side, side, side);
    }
    fprintf(file, "\n");
    return file;
}

static void csv_side(FILE *file, const struct options *options, const struct result *side)
{
    if (!side->measured) {
        fprintf(file, options->percentiles ? ",,,,,,," : ",,,,");
        return;
    }
    fprintf(file, ",%.3f,%.6f,%.6f,", side->time_us, side->algbw, side->busbw);
    if (options->checks) fprintf(file, "%llu", (unsigned long long)side->wrong);
    if (options->percentiles) fprintf(file, ",%.3f,%.3f,%.3f", side->min_us, side->p50_us, side->p99_us);
}

void csv_coded(FILE *file, const struct bench *bench, const struct row *row, const struct coded *coded)
{
    fprintf(file, "%zu,%zu,%s,%s,-1,%s,%.3f,%.3f,%.6f,%.6f,%.6e,%.6e,", row_bytes(bench->options, row, bench->nranks),
            row->count, type_names[row->type], op_names[row->op], ringtree_codec_name(coded->kind), coded->exact_us,
            coded->time_us, coded->busbw, coded->wire_bytes, coded->max_error, coded->rms_error);
    if (coded->bounded) fprintf(file, "%.6e", coded->bound);
    fprintf(file, "\n");
    fflush(file);
}

void csv_row(FILE *file, const struct bench *bench, const struct row *row, const struct result sides[2])
{
    const struct options *options = bench->options;
    fprintf(file, "%zu,%zu,%s,%s,%d", row_bytes(options, row, bench->nranks), row->count, type_names[row->type],
            op_names[row->op], options->collective->rooted ? (int)row->root : -1);
    csv_side(file, options, &sides[0]);
    csv_side(file, options, &sides[1]);
    fprintf(file, "\n");
    fflush(file);
}
