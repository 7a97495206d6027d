/* ringtree-plan: prints the steps of any algorithm for any number of ranks, draws them, and verifies them. */
#include "ringtree-plan.h"
#include "tool.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FINE, EXIT_REJECTED, EXIT_OUTPUT = 3 };

static const char help[] =
    "Usage: ringtree-plan [OPTION]... COLLECTIVE ALGORITHM\n"
    "       ringtree-plan --list\n"
    "Print the steps that each rank takes in a collective, draw them, or verify them.\n"
    "\n"
    "  -n, --ranks N        number of ranks (4)\n"
    "  -r, --rank R         print only this rank\n"
    "      --root R         root of reduce, broadcast, gather, scatter (0)\n"
    "  -l, --layout LIST    node of each rank, as 0,0,1,1; or one number: that many nodes of equal blocks of ranks\n"
    "  -s, --svg FILE       draw into FILE instead (-: standard output); at most 64 ranks\n"
    "  -v, --verify         verify all ranks' steps symbolically, in place and not, and print the verdict\n"
    "      --slots N        slots per link to verify with (the algorithm's least)\n"
    "      --followed N     chunks whose values are followed, for thousands of ranks (all)\n"
    "      --most-steps N   bound of the steps of all ranks to verify (200000000)\n"
    "      --list           list the collectives and their algorithms\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n"
    "\n"
    "Examples:\n"
    "  ringtree-plan all_reduce ring -n 4                       a ring of four, in words\n"
    "  ringtree-plan broadcast tree -n 8 --root 3 -s tree.svg   both trees from rank 3, drawn\n"
    "  ringtree-plan all_reduce hierarchical -n 8 -l 2 -r 5     rank 5's part on two nodes\n"
    "  ringtree-plan all_reduce halving -n 16384 --followed 16 --verify\n"
    "\n"
    "Exit status: 0 fine, 1 the verifier rejected the plan, 2 wrong usage or an algorithm that cannot serve this\n"
    "shape, 3 the output could not be written or there was no memory.\n";

struct arguments {
    uint32_t    nranks, rank, root, slots, followed;
    uint64_t    most_steps;
    const char *layout, *svg;
    bool        verify;
};

static void list(void)
{
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const bool first = i == 0 || rt_algorithms[i]->collective != rt_algorithms[i - 1]->collective;
        if (first) printf("%s%-16s", i ? "\n" : "", ringtree_collective_name(rt_algorithms[i]->collective));
        printf(" %s", rt_algorithms[i]->name);
    }
    putchar('\n');
}

static void take_option(int option, const char *value, struct arguments *a)
{
    switch (option) {
    case 'n': a->nranks = (uint32_t)tool_number(value, "--ranks", 1, PLAN_MOST_RANKS); return;
    case 'r': a->rank = (uint32_t)tool_number(value, "--rank", 0, PLAN_MOST_RANKS - 1); return;
    case 'R': a->root = (uint32_t)tool_number(value, "--root", 0, PLAN_MOST_RANKS - 1); return;
    case 'l': a->layout = value; return;
    case 's': a->svg = value; return;
    case 'v': a->verify = true; return;
    case 'S': a->slots = (uint32_t)tool_number(value, "--slots", 1, 1000000); return;
    case 'F': a->followed = (uint32_t)tool_number(value, "--followed", 2, PLAN_MOST_RANKS); return;
    case 'M': a->most_steps = tool_number(value, "--most-steps", 1, UINT64_MAX / 4); return;
    case 'L': list(); exit(EXIT_FINE);
    case 'h': fputs(help, stdout); exit(EXIT_FINE);
    case 'V': printf("ringtree-plan %d.%d.%d\n", RINGTREE_VERSION_MAJOR, RINGTREE_VERSION_MINOR,
                     RINGTREE_VERSION_PATCH);
              exit(EXIT_FINE);
    default:  fputs("ringtree-plan: see ringtree-plan --help\n", stderr); exit(EXIT_USAGE);
    }
}

static void take_options(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        { "ranks", required_argument, NULL, 'n' },      { "rank", required_argument, NULL, 'r' },
        { "root", required_argument, NULL, 'R' },       { "layout", required_argument, NULL, 'l' },
        { "svg", required_argument, NULL, 's' },        { "verify", no_argument, NULL, 'v' },
        { "slots", required_argument, NULL, 'S' },      { "followed", required_argument, NULL, 'F' },
        { "most-steps", required_argument, NULL, 'M' }, { "list", no_argument, NULL, 'L' },
        { "help", no_argument, NULL, 'h' },             { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    for (int option; (option = getopt_long(argc, argv, "n:r:l:s:vhV", options, NULL)) != -1;)
        take_option(option, optarg, a);
}

static const struct rt_algorithm *find_algorithm(const char *collective, const char *name)
{
    bool known = false;
    char names[256] = "";
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (strcmp(ringtree_collective_name(a->collective), collective) != 0) continue;
        known = true;
        if (strcmp(a->name, name) == 0) return a;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", a->name);
    }
    if (known) tool_fail(EXIT_USAGE, "%s has no algorithm \"%s\", but %s", collective, name, names);
    tool_fail(EXIT_USAGE, "there is no collective \"%s\" with algorithms; --list names them", collective);
}

/* "2": blocks; "0,1,0,1": each rank's node, numbered by first appearance. */
static void read_layout(const char *text, uint32_t nranks, uint32_t *node_of, struct rt_layout *layout)
{
    layout->node_of = node_of;
    layout->nnodes = 0;
    if (!strchr(text, ',')) {
        layout->nnodes = (uint32_t)tool_number(text, "--layout", 1, nranks);
        for (uint32_t r = 0; r < nranks; r++) node_of[r] = (uint32_t)((uint64_t)r * layout->nnodes / nranks);
        return;
    }
    for (uint32_t r = 0; r < nranks; r++) {
        char one[16];
        const size_t length = strcspn(text, ",");
        if (length == 0 || length >= sizeof one)
            tool_fail(EXIT_USAGE, "--layout names the nodes of %u ranks, not of %u", r, nranks);
        memcpy(one, text, length);
        one[length] = '\0';
        node_of[r] = (uint32_t)tool_number(one, "a node in --layout, numbered by first appearance,", 0, layout->nnodes);
        if (node_of[r] == layout->nnodes) layout->nnodes++;
        text += length + (text[length] == ',');
    }
    if (*text) tool_fail(EXIT_USAGE, "--layout names the nodes of more than %u ranks", nranks);
}

static int verify(const struct plan *plan, const struct arguments *a)
{
    struct rt_report report = { 0 };
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct rt_verify_options options = {
            .nranks = plan->nranks, .root = plan->root, .layout = plan->layout, .in_place = in_place,
            .slots = a->slots, .slices = plan->nranks <= 256 ? 2 : 1,
            .followed = a->followed, .most_steps = a->most_steps,
        };
        const enum rt_verdict verdict = rt_verify(plan->algorithm, &options, &report);
        printf("%s: %s: %s\n", in_place ? "in place" : "out of place", rt_verdict_name(verdict), report.text);
        if (verdict == RT_VERDICT_NO_MEMORY) return EXIT_OUTPUT;
        if (verdict != RT_VERDICT_OK) return verdict == RT_VERDICT_TOO_LARGE ? EXIT_USAGE : EXIT_REJECTED;
    }
    return EXIT_FINE;
}

static int draw(const struct plan *plan, const char *path)
{
    if (plan->nranks > PLAN_MOST_DRAWN) tool_fail(EXIT_USAGE, "a drawing has at most %d ranks", PLAN_MOST_DRAWN);
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!out) tool_fail(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
    if (!plan_draw(plan, out)) tool_fail(EXIT_OUTPUT, "no memory for the drawing");
    if (fflush(out) || ferror(out)) tool_fail(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
    if (out != stdout && fclose(out)) tool_fail(EXIT_OUTPUT, "cannot write %s: %s", path, strerror(errno));
    return EXIT_FINE;
}

static void check_shape(struct plan *plan, const struct arguments *a)
{
    const struct rt_shape shape = plan_shape(plan, 0, 0);
    if (a->rank != RT_NONE && a->rank >= plan->nranks)
        tool_fail(EXIT_USAGE, "there is no rank %u among %u", a->rank, plan->nranks);
    if (plan->root != RT_NONE && plan->root >= plan->nranks)
        tool_fail(EXIT_USAGE, "there is no root %u among %u ranks", plan->root, plan->nranks);
    const char *refusal = plan->algorithm->refuses ? plan->algorithm->refuses(&shape) : NULL;
    if (refusal) tool_fail(EXIT_USAGE, "%s %s cannot be used here: it %s (--layout)",
                      ringtree_collective_name(plan->algorithm->collective), plan->algorithm->name, refusal);
    plan->lanes = plan->algorithm->lanes(&shape);
    plan->chunks = plan->algorithm->chunks(&shape);
}

int main(int argc, char **argv)
{
    struct arguments a = { .nranks = 4, .rank = RT_NONE };
    take_options(argc, argv, &a);
    if (argc - optind != 2) tool_fail(EXIT_USAGE, "needs a collective and an algorithm");
    struct plan plan = { .algorithm = find_algorithm(argv[optind], argv[optind + 1]), .nranks = a.nranks };
    plan.root = rt_collective_has_root(plan.algorithm->collective) ? a.root : RT_NONE;
    static uint32_t node_of[PLAN_MOST_RANKS];
    struct rt_layout layout;
    if (a.layout) {
        read_layout(a.layout, a.nranks, node_of, &layout);
        plan.layout = &layout;
    }
    check_shape(&plan, &a);
    int status = EXIT_FINE;
    if (a.svg) status = draw(&plan, a.svg);
    else if (!a.verify) plan_print(&plan, a.rank, stdout);
    if (a.verify) status = verify(&plan, &a);
    if (fflush(stdout)) tool_fail(EXIT_OUTPUT, "cannot write: %s", strerror(errno));
    return status;
}
