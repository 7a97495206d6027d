/* The figures as a table for people and as JSON for programs. Keys are only ever added. */
#include "limits.h"

static void size_words(size_t bytes, char words[24])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    int unit = 0;
    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(words, 24, "%zu %s", bytes, units[unit]);
}

void report_head(const struct limits *limits, const struct machine *machine, FILE *out)
{
    char l2[24], l3[24], memory[24];
    size_words(machine->l2_bytes, l2);
    size_words(machine->l3_bytes, l3);
    size_words(machine->memory_bytes, memory);
    fprintf(out, "# %s, %ld cores, L2 %s, L3 %s, memory %s, %s\n", machine->processor, machine->cores, l2, l3, memory,
            machine->kernel);
    fprintf(out, "# congestion control of a new socket: %s (available: %s); huge pages: %s\n", machine->congestion,
            machine->congestion_available, machine->huge_pages);
    fprintf(out, "# cores %d and %d, %u repeats each\n#\n", limits->cores[0], limits->cores[1], limits->repeats);
    fprintf(out, "# %-22s %9s %2s %10s %10s %10s %-5s what\n", "meter", "size", "n", "median", "least", "most", "unit");
}

void report_row(const struct figure *figure, FILE *out)
{
    char size[24] = "", count[16] = "";
    if (figure->bytes) size_words(figure->bytes, size);
    if (figure->count) snprintf(count, sizeof(count), "%u", figure->count);
    fprintf(out, "  %-22s %9s %2s ", figure->name, size, count);
    if (figure->repeats)
        fprintf(out, "%10.3f %10.3f %10.3f %-5s %s", figure->median, figure->least, figure->most, figure->unit,
                figure->what);
    else fprintf(out, "not measured: %s", figure->why);
    if (figure->repeats && figure->traffic > 0)
        fprintf(out, " (traffic of all: %.1f GB/s)", figure->median * figure->traffic * figure->count);
    fputc('\n', out);
    fflush(out);
}

/* Bytes that JSON would have to escape, or that need not be UTF-8, become '?'. */
static void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fputc(*text < ' ' || *text > '~' || *text == '"' || *text == '\\' ? '?' : *text, out);
    fputc('"', out);
}

static void json_key_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\": ", key);
    json_text(out, text);
}

static void json_machine(const struct machine *machine, FILE *out)
{
    fprintf(out, "  \"machine\": {\n    ");
    json_key_text(out, "processor", machine->processor);
    fprintf(out, ",\n    ");
    json_key_text(out, "kernel", machine->kernel);
    fprintf(out, ",\n    \"cores\": %ld, \"l2_bytes\": %zu, \"l3_bytes\": %zu, ", machine->cores, machine->l2_bytes,
            machine->l3_bytes);
    fprintf(out, "\"memory_bytes\": %zu, \"page_bytes\": %zu,\n    ", machine->memory_bytes, machine->page_bytes);
    json_key_text(out, "congestion_control", machine->congestion);
    fprintf(out, ", ");
    json_key_text(out, "congestion_control_available", machine->congestion_available);
    fprintf(out, ",\n    ");
    json_key_text(out, "huge_pages", machine->huge_pages);
    fprintf(out, "\n  },\n");
}

static void json_figure(const struct figure *figure, FILE *out)
{
    fprintf(out, "    {\"name\": \"%s\", \"bytes\": %zu, \"count\": %u, \"unit\": \"%s\", ", figure->name,
            figure->bytes, figure->count, figure->unit);
    if (figure->repeats)
        fprintf(out, "\"median\": %.6g, \"least\": %.6g, \"most\": %.6g, \"repeats\": %u, ", figure->median,
                figure->least, figure->most, figure->repeats);
    else {
        fprintf(out, "\"median\": null, ");
        json_key_text(out, "why", figure->why);
        fprintf(out, ", ");
    }
    if (figure->traffic > 0) fprintf(out, "\"traffic_per_byte\": %g, ", figure->traffic);
    json_key_text(out, "what", figure->what);
    fputc('}', out);
}

bool report_json(const struct limits *limits, const struct machine *machine, const double line_ns[2], FILE *out)
{
    fprintf(out, "{\n  \"program\": \"ringtree-limits\",\n  \"cores\": [%d, %d],\n", limits->cores[0],
            limits->cores[1]);
    if (line_ns[0] > 0)
        fprintf(out, "  \"class\": \"%s\", \"class_after\": \"%s\", \"line_one_way_ns\": [%.4g, %.4g],\n",
                class_of(line_ns[0]), class_of(line_ns[1]), line_ns[0], line_ns[1]);
    json_machine(machine, out);
    fprintf(out, "  \"figures\": [\n");
    for (size_t i = 0; i < limits->figure_count; i++) {
        json_figure(&limits->figures[i], out);
        fputs(i + 1 < limits->figure_count ? ",\n" : "\n", out);
    }
    fprintf(out, "  ]\n}\n");
    return !fflush(out) && !ferror(out);
}
