/* ringtree-topo: shows, draws, dumps, checks and compares machines: this one, recorded ones, and ones made up. */
#include "ringtree-topo.h"
#include "tool.h"
#include "compressed.h"
#include "topology/file.h"
#include "topology/load.h"
#include "topology/nccl.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_FINE, EXIT_FOUND, EXIT_OUTPUT = 3 };

static const char help[] =
    "Usage: ringtree-topo show|draw|dump|check [OPTION]... [FILE]\n"
    "       ringtree-topo compare [OPTION]... A [B]\n"
    "       ringtree-topo explain [OPTION]... COLLECTIVE [BYTES [FILE]]\n"
    "Look at a machine: its processors, PCI tree, GPUs, NVLinks and network cards, and the rings and trees that use\n"
    "its links best. Without FILE it is this machine.\n"
    "\n"
    "  show                 the machine as a tree, and the rings found\n"
    "  draw                 the machine and its rings as SVG, or as PNG if OUT ends in .png\n"
    "  dump                 the machine as NCCL's topology XML, with --rings the rings as NCCL's graph XML\n"
    "  check                what is likely wrong: slow links, far NICs, hidden NUMA, ACS, MTU, limits\n"
    "  explain              the time predicted for every algorithm of a collective, or the best for each size\n"
    "  compare              what differs between A and B, or between A and this machine\n"
    "\n"
    "  -f, --file FILE      NCCL's topology XML, hwloc's XML, or words as below, in a file or as FILE itself\n"
    "  -m, --merged         the machines of all ranks, under ringtree-run or another launcher; rank 0 writes\n"
    "  -c, --complete       complete FILE by what this machine knows of the same PCI devices\n"
    "  -r, --rings          dump: the rings instead of the machine\n"
    "  -g, --graph FILE     take the rings from NCCL's graph XML instead of searching\n"
    "  -n, --ranks N        explain: so many ranks, up to 65536; FILE is repeated as often as needed\n"
    "  -t, --tcp            explain: ranks of this machine that share no memory\n"
    "      --codec CODEC    explain: would float32 be compressed, and by what? auto, q8, topk:0.01,feedback ...\n"
    "  -o, --output OUT     write into OUT (standard output)\n"
    "  -h, --help           this text\n"
    "  -V, --version        the version\n"
    "\n"
    "A machine in words: [COUNT] KIND WORD..., \":\" before what is inside, \";\" between neighbours, \"( )\" around\n"
    "a group.\n"
    "  node, socket, numa   socket and numa with link:GB/s between them\n"
    "  core                 a core, or a rank that lives on one\n"
    "  pci                  a PCI switch; it, gpu and nic take pcie:GENERATIONxLANES\n"
    "  gpu                  sm:90, nvlink:LINKS with switch, mesh, ring or cube\n"
    "  nic                  200G, ports:2\n"
    "\n"
    "Examples:\n"
    "  ringtree-topo show\n"
    "  ringtree-topo draw -o machine.svg\n"
    "  ringtree-topo show \"2 node: 2 socket: 4 gpu nvlink:12 switch; 2 nic 200G\"\n"
    "  ringtree-topo check --complete /opt/cloud/topo.xml\n"
    "  ringtree-topo dump --rings -o graph.xml\n"
    "  ringtree-topo explain all_reduce 1M --ranks 4\n"
    "  ringtree-topo explain all_reduce -n 65536 -f \"node: 2 socket: 4 gpu nvlink:18 switch sm:90; 4 nic 400G\"\n"
    "  mpirun ringtree-topo show --merged\n"
    "\n"
    "Exit status: 0 fine, 1 check or compare found something, 2 wrong usage or a file that cannot be read, 3 the "
    "output\n"
    "could not be written or there was no memory.\n";

enum { OWN_CODEC = 256 };

struct arguments {
    const char *command, *source[2], *output, *graph;
    struct topo_question question;
    bool        explains, complete, rings, merged;
};

/* COLLECTIVE [BYTES]; returns where the rest begins. */
static int take_question(int argc, char **argv, struct topo_question *question)
{
    int c = 0;

    if (optind == argc)
        tool_fail(EXIT_USAGE, "explain needs a collective, such as all_reduce");
    while (c < RINGTREE_BARRIER && strcmp(ringtree_collective_name((ringtree_collective)c), argv[optind]) != 0)
        c++;
    if (c == RINGTREE_BARRIER)
        tool_fail(EXIT_USAGE, "there is no collective \"%s\" to explain", argv[optind]);
    question->collective = (ringtree_collective)c;
    if (++optind < argc)
        question->bytes = tool_number(argv[optind++], "BYTES", 1, UINT64_C(1) << 40);
    return optind;
}

static void take_option(int option, struct arguments *a)
{
    switch (option) {
    case 'f': a->source[0] = optarg; break;
    case 'c': a->complete = true; break;
    case 'r': a->rings = true; break;
    case 'm': a->merged = true; break;
    case 'g': a->graph = optarg; break;
    case 'n': a->question.ranks = (uint32_t)tool_number(optarg, "--ranks", 1, TOPO_MOST_RANKS); break;
    case 't': a->question.tcp = true; break;
    case OWN_CODEC:
        a->question.coded = true;
        if (ringtree_codec_parse(&a->question.codec, optarg) != RINGTREE_OK)
            tool_fail(EXIT_USAGE, "%s", ringtree_last_error(NULL));
        break;
    case 'o': a->output = optarg; break;
    case 'h': fputs(help, stdout); exit(EXIT_FINE);
    case 'V': printf("ringtree-topo %d.%d.%d\n", RINGTREE_VERSION_MAJOR, RINGTREE_VERSION_MINOR,
                     RINGTREE_VERSION_PATCH);
              exit(EXIT_FINE);
    default:  tool_fail(EXIT_USAGE, "wrong usage");
    }
}

static struct arguments take_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        { "codec", required_argument, NULL, OWN_CODEC },
        { "file", required_argument, NULL, 'f' },  { "complete", no_argument, NULL, 'c' },
        { "rings", no_argument, NULL, 'r' },       { "graph", required_argument, NULL, 'g' },
        { "output", required_argument, NULL, 'o' }, { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },     { "merged", no_argument, NULL, 'm' },
        { "ranks", required_argument, NULL, 'n' },  { "tcp", no_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };
    struct arguments a = { 0 };

    for (int option; (option = getopt_long(argc, argv, "f:crmg:o:n:thV", options, NULL)) != -1;)
        take_option(option, &a);
    if (optind == argc)
        tool_fail(EXIT_USAGE, "needs a command: show, draw, dump, check, explain or compare");
    a.command = argv[optind++];
    a.explains = strcmp(a.command, "explain") == 0;
    if (a.explains)
        optind = take_question(argc, argv, &a.question);
    if (a.question.coded && a.explains && !rt_codec_serves(a.question.collective))
        tool_fail(EXIT_USAGE, "no call with a codec is %s", ringtree_collective_name(a.question.collective));
    if (a.question.coded && !a.explains)
        tool_fail(EXIT_USAGE, "--codec is for explain");
    const int most = strcmp(a.command, "compare") == 0 ? 2 : 1;
    for (int i = a.source[0] ? 1 : 0; optind < argc; i++) {
        if (i >= most)
            tool_fail(EXIT_USAGE, "\"%s\" is one machine too many", argv[optind]);
        a.source[i] = argv[optind++];
    }
    if (a.merged && (a.source[0] || a.complete || most == 2))
        tool_fail(EXIT_USAGE, "--merged takes the machines of the ranks, no FILE");
    return a;
}

static struct rt_graph *load(const char *source, bool complete)
{
    struct rt_error error;
    struct rt_graph *graph;

    if (rt_machine_load(&graph, source, complete, &error) != RINGTREE_OK)
        tool_fail(error.status == RINGTREE_NO_MEMORY ? EXIT_OUTPUT : EXIT_USAGE, "%s", error.text);
    return graph;
}

/* NULL: there are none, and *error says why. A file of rings that does not fit ends the program. */
static struct rt_search *find_rings(const struct rt_graph *graph, const struct arguments *a, struct rt_error *error)
{
    struct rt_search *search = NULL;
    char *text;
    size_t length;

    if (rt_search(&search, graph, error) != RINGTREE_OK || !a->graph)
        return search;
    ringtree_status status = rt_file_read(a->graph, &text, &length, error);
    if (status == RINGTREE_OK) {
        status = rt_rings_read(search, 0, text, length, a->graph, error);
        free(text);
    }
    if (status != RINGTREE_OK)
        tool_fail(EXIT_USAGE, "%s", error->text);
    return search;
}

/* A program that turns the SVG into PNG as it is written; its exit is awaited in close_output(). */
static FILE *open_png(const char *path, pid_t *child)
{
    int ends[2];

    if (pipe(ends) != 0 || (*child = fork()) < 0)
        tool_fail(EXIT_OUTPUT, "cannot start rsvg-convert: %s", strerror(errno));
    if (*child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("rsvg-convert", "rsvg-convert", "--format=png", "-o", path, (char *)NULL);
        fprintf(stderr, "ringtree-topo: PNG needs rsvg-convert (Debian: librsvg2-bin): %s\n", strerror(errno));
        _exit(127);
    }
    close(ends[0]);
    return fdopen(ends[1], "w");
}

static bool is_png(const char *path)
{
    const size_t length = strlen(path);

    return length > 4 && strcmp(path + length - 4, ".png") == 0;
}

static FILE *open_output(const struct arguments *a, pid_t *child)
{
    *child = 0;
    if (!a->output || strcmp(a->output, "-") == 0)
        return stdout;
    FILE *out = strcmp(a->command, "draw") == 0 && is_png(a->output) ? open_png(a->output, child) : fopen(a->output,
                                                                                                          "w");
    if (!out)
        tool_fail(EXIT_OUTPUT, "cannot write %s: %s", a->output, strerror(errno));
    return out;
}

static void close_output(FILE *out, const char *path, pid_t child)
{
    int status = 0;
    const bool written = !fflush(out) && !ferror(out);

    if ((out != stdout && fclose(out) != 0) || !written)
        tool_fail(EXIT_OUTPUT, "cannot write %s: %s", path ? path : "the output", strerror(errno));
    if (child && (waitpid(child, &status, 0) < 0 || status != 0))
        tool_fail(EXIT_OUTPUT, "%s was not written", path);
}

static int run(const struct arguments *a, const struct rt_graph *graph, FILE *out)
{
    struct rt_error error;
    struct rt_search *search = NULL;
    int status = EXIT_FINE;

    if (strcmp(a->command, "check") != 0 && (strcmp(a->command, "dump") != 0 || a->rings))
        search = find_rings(graph, a, &error);
    if (strcmp(a->command, "show") == 0) {
        topo_show(graph, search, out);
        topo_show_rings(graph, search, error.text, out);
    } else if (strcmp(a->command, "draw") == 0) {
        if (!topo_draw(graph, search, out)) tool_fail(EXIT_OUTPUT, "no memory for the drawing");
    } else if (strcmp(a->command, "check") == 0) {
        status = topo_check(graph, out) ? EXIT_FOUND : EXIT_FINE;
    } else if (a->rings) {
        if (!search) tool_fail(EXIT_USAGE, "no rings: %s", error.text);
        rt_rings_write(search, 0, out);
    } else {
        rt_nccl_write(graph, graph->machine[0], out);
    }
    rt_search_free(search);
    return status;
}

static int explain(const struct arguments *a, const struct rt_graph *graph, FILE *out)
{
    const char *why = topo_explain(&a->question, graph, out);

    if (why)
        tool_fail(EXIT_OUTPUT, "%s", why);
    return EXIT_FINE;
}

static size_t merged_bytes(const struct arguments *a)
{
    return a->question.bytes ? a->question.bytes : 1 << 20;
}

/* Collective: all ranks measure what they encode. */
static void explain_codec(const struct arguments *a, ringtree_comm *comm, char *text, size_t capacity)
{
    text[0] = '\0';
    if (a->question.coded && ringtree_codec_explain(comm, a->question.collective, merged_bytes(a) / sizeof(float),
                                                    &a->question.codec, text, capacity) != RINGTREE_OK)
        tool_fail(EXIT_USAGE, "%s", ringtree_last_error(comm));
}

/* What the ranks of a launcher would do, by their own links. */
static int explain_merged(const struct arguments *a, ringtree_comm *comm, FILE *out)
{
    char text[4096];
    const size_t bytes = merged_bytes(a);

    if (ringtree_plan_explain(comm, a->question.collective, bytes, RINGTREE_UINT8, RINGTREE_SUM, text, sizeof text))
        tool_fail(EXIT_USAGE, "%s", ringtree_last_error(comm));
    fputs(text, out);
    return EXIT_FINE;
}

static int run_merged(const struct arguments *a)
{
    ringtree_comm *comm = NULL;
    const struct rt_graph *graph = topo_join(&comm);
    int status = graph ? EXIT_FINE : EXIT_USAGE;
    char codec[1024] = "";
    pid_t child;

    if (graph && a->explains)
        explain_codec(a, comm, codec, sizeof codec);
    if (graph && ringtree_rank(comm) == 0) {
        FILE *out = open_output(a, &child);
        status = a->explains ? explain_merged(a, comm, out) : run(a, graph, out);
        fputs(codec, out);
        close_output(out, a->output, child);
    }
    if (ringtree_destroy(comm) != RINGTREE_OK && status == EXIT_FINE)
        tool_fail(EXIT_USAGE, "%s", ringtree_last_error(NULL));
    return status;
}

static int compare(const struct arguments *a, FILE *out)
{
    struct rt_graph *one = load(a->source[0], false), *two = load(a->source[1], false);
    const unsigned differences = topo_compare(one, two, a->source[0] ? a->source[0] : "this machine",
                                              a->source[1] ? a->source[1] : "this machine", out);

    rt_graph_free(one);
    rt_graph_free(two);
    return differences ? EXIT_FOUND : EXIT_FINE;
}

int main(int argc, char **argv)
{
    static const char *const commands[] = { "show", "draw", "dump", "check", "explain", "compare" };
    const struct arguments a = take_arguments(argc, argv);
    struct rt_graph *graph = NULL;
    bool known = false;
    pid_t child;

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        known |= strcmp(a.command, commands[i]) == 0;
    if (!known)
        tool_fail(EXIT_USAGE, "there is no command \"%s\", but show, draw, dump, check, explain and compare",
                  a.command);
    if (a.merged)
        return run_merged(&a);
    const bool comparing = strcmp(a.command, "compare") == 0;
    if (!comparing && !(a.explains && !a.source[0]))
        graph = load(a.source[0], a.complete);
    FILE *out = open_output(&a, &child);
    const int status = a.explains ? explain(&a, graph, out) : comparing ? compare(&a, out) : run(&a, graph, out);
    close_output(out, a.output, child);
    rt_graph_free(graph);
    return status;
}
