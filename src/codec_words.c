/* A codec in words, as options and settings have it. */
#include "compressed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After auto: one that it may take. */
static ringtree_status take_kind(ringtree_codec *codec, ringtree_codec_kind kind)
{
    if (codec->kind == RINGTREE_CODEC_AUTO && kind != RINGTREE_CODEC_AUTO) codec->allowed |= 1u << kind;
    else codec->kind = kind;
    return RINGTREE_OK;
}

static ringtree_status take_word(ringtree_codec *codec, const char *word)
{
    static const struct {
        const char *word;
        uint32_t    flag;
    } flags[] = { { "stochastic", RINGTREE_CODEC_STOCHASTIC }, { "int8", RINGTREE_CODEC_INT8_VALUES },
                  { "feedback", RINGTREE_CODEC_FEEDBACK },     { "reselect", RINGTREE_CODEC_RESELECT },
                  { "force", RINGTREE_CODEC_FORCE },           { "small", RINGTREE_CODEC_SMALL },
                  { "ring", RINGTREE_CODEC_BY_RING | RINGTREE_CODEC_FORCE },
                  { "tree", RINGTREE_CODEC_BY_TREE | RINGTREE_CODEC_FORCE } };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(word, flags[i].word)) return codec->flags |= flags[i].flag, RINGTREE_OK;
    for (int kind = 0; kind <= RINGTREE_CODEC_AUTO; kind++)
        if (!strcmp(word, ringtree_codec_name((ringtree_codec_kind)kind)))
            return take_kind(codec, (ringtree_codec_kind)kind);
    char *end = NULL;
    if (!strncmp(word, "topk:", 5)) codec->ratio = strtof(word + 5, &end);
    if (!end || end == word + 5 || *end)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "ringtree_codec_parse: \"%s\" is no word of a "
                       "codec; they are none, bf16, fp16, q8, q4, topk, topk:RATIO, auto, stochastic, int8, feedback, "
                       "reselect, force, small, ring and tree, with commas between", word);
    return take_kind(codec, RINGTREE_CODEC_TOPK);
}

ringtree_status ringtree_codec_parse(ringtree_codec *codec, const char *text)
{
    char copy[128], *save = NULL;
    ringtree_codec parsed = RINGTREE_CODEC_DEFAULT;
    struct rt_compression unused;
    struct rt_error *error = rt_thread_error();
    ringtree_status status = RINGTREE_OK;
    rt_error_clear(error);
    if (!codec || !text || strlen(text) >= sizeof copy)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_codec_parse: codec or text is NULL, or text longer "
                       "than %zu", sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, ",", &save); word && !status; word = strtok_r(NULL, ",", &save))
        status = take_word(&parsed, word);
    if (!status) status = rt_compression_of(&parsed, &unused, error);
    if (!status) *codec = parsed;
    return status;
}
