/* explain --codec: whether a call would compress, with what and why, on links as they are described. */
#include "ringtree-topo.h"
#include "compressed.h"

static struct rt_codec_choice choice_of(const struct topo_question *q, const struct rt_codec_case *at, size_t count)
{
    struct rt_codec_choice choice = { .explains = true };
    const size_t elements = rt_codec_elements(at, q->collective, count);
    if (!rt_codec_is_exact(at, &q->codec, elements, &choice))
        rt_codec_take_fastest(at, &q->codec, elements, &choice);
    return choice;
}

static void explain_sizes(const struct topo_question *q, const struct rt_codec_case *at, FILE *out)
{
    fprintf(out, "%12s  with codec %s\n", "bytes", ringtree_codec_name(q->codec.kind));
    for (size_t bytes = 4096; bytes <= (size_t)1 << 30; bytes *= 4) {
        const struct rt_codec_choice choice = choice_of(q, at, bytes / sizeof(float));
        fprintf(out, "%12zu  %s; %s\n", bytes, choice.kind ? ringtree_codec_name(choice.kind) : "exact", choice.why);
    }
}

static void explain_one(const struct topo_question *q, const struct rt_codec_case *at, FILE *out)
{
    char text[1024];
    const size_t count = q->bytes / sizeof(float);
    const struct rt_codec_choice choice = choice_of(q, at, count);
    rt_codec_say(at, q->collective, count, &q->codec, &choice, text, sizeof text);
    fputs(text, out);
}

const char *topo_explain_codec(const struct topo_question *q, uint32_t ranks, uint32_t nodes, double link_rate,
                               FILE *out)
{
    static struct rt_settings settings;
    static struct rt_error error;
    struct rt_codec_rates rates = { .known = false };
    if (rt_settings_load(&settings, &error) != RINGTREE_OK) return error.text;
    const uint64_t given = settings.number[RT_LINK_RATE];
    const struct rt_codec_case at = { ranks, nodes, given ? (double)given : link_rate,
                                      (double)settings.number[RT_COMPRESS_BELOW], &rates };
    if (q->codec.kind == RINGTREE_CODEC_AUTO) {
        rt_codec_measure(&rates);
        if (!rates.known) return "no memory to measure codecs";
        fputs("codecs as fast as on this machine: ", out);
    }
    if (q->bytes) explain_one(q, &at, out);
    else explain_sizes(q, &at, out);
    return NULL;
}
