/* One line per row of the table, for spreadsheets: times in microseconds, bandwidths in GB/s. */
#include "perf.h"

FILE *csv_open(const struct options *options)
{
    FILE *file = fopen(options->csv_file, "we");
    if (!file) return NULL;
    fprintf(file, "size,count,type,redop,root");
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
