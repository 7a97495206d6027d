/* Tells the forms of machines apart by how they begin. */
#include "load.h"
#include "discover.h"
#include "file.h"
#include "nccl.h"
#include "synthetic.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name of the first element, past declarations and comments; NULL: this is no XML. */
static const char *first_element(const char *text)
{
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (strncmp(text, "<!--", 4) == 0)
            text = strstr(text, "-->");
        else if (strncmp(text, "<?", 2) == 0 || strncmp(text, "<!", 2) == 0)
            text = strchr(text, '>');
        else
            return *text == '<' ? text + 1 : NULL;
        if (!text)
            return NULL;
        text += strspn(text, "->");
    }
}

/* In a file, lines that begin with # are remarks. */
static void drop_remarks(char *text)
{
    char *to = text;

    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n"), whole = length + (line[length] == '\n');
        if (*line != '#') {
            memmove(to, line, whole);
            to += whole;
        }
        line += whole;
    }
    *to = '\0';
    while (to > text && isspace((unsigned char)to[-1]))
        *--to = '\0';
}

static ringtree_status read_file(struct rt_graph **graph, const char *path, struct rt_error *error)
{
    char *text;
    size_t length;
    ringtree_status status = rt_file_read(path, &text, &length, error);

    if (status != RINGTREE_OK)
        return status;
    const char *element = first_element(text);
    if (element && strncmp(element, "topology", 8) == 0)
        status = rt_hwloc_read(graph, text, length, path, error);
    else if (element)
        status = rt_nccl_read(graph, text, length, path, error);
    else if (strlen(text) != length)
        status = rt_fail(error, RINGTREE_INVALID_ARGUMENT, "%s is neither XML nor a machine in words", path);
    else {
        drop_remarks(text);
        status = rt_synthetic_read(graph, text, error);
    }
    free(text);
    return status;
}

static ringtree_status read_source(struct rt_graph **graph, const char *source, struct rt_error *error)
{
    if (access(source, F_OK) == 0)
        return read_file(graph, source, error);
    if (source[0] == '/' || source[0] == '.' || !strpbrk(source, " :0123456789") || strchr(source, '.'))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "there is no file %s, and it is no machine in words such as "
                       "\"2 node: 8 gpu nvlink:12 switch; 8 nic 200G\"", source);
    return rt_synthetic_read(graph, source, error);
}

ringtree_status rt_machine_load(struct rt_graph **graph, const char *source, bool complete, struct rt_error *error)
{
    struct rt_graph *skeleton, *live;

    *graph = NULL;
    if (!source || !*source)
        return rt_discover(graph, error);
    ringtree_status status = read_source(&skeleton, source, error);
    if (status != RINGTREE_OK || !complete) {
        *graph = status == RINGTREE_OK ? skeleton : NULL;
        return status;
    }
    status = rt_discover(&live, error);
    if (status == RINGTREE_OK)
        status = rt_graph_merge(graph, skeleton, live, error);
    rt_graph_free(skeleton);
    rt_graph_free(live);
    return status;
}
