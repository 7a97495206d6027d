/* Expat behind bounds. It is loaded by name: who links ringtree need not link it. */
#include "xml.h"
#include <stdio.h>
#include <string.h>

const char *rt_xml_value(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return NULL;
}

#ifdef RT_HAVE_EXPAT
#include "base/symbols.h"
#include <dlfcn.h>
#include <expat.h>
#include <pthread.h>

static struct {
    XML_Parser (*create)(const XML_Char *encoding);
    void (*free)(XML_Parser parser);
    void (*set_user_data)(XML_Parser parser, void *data);
    void (*set_elements)(XML_Parser parser, XML_StartElementHandler begin, XML_EndElementHandler end);
    void (*set_doctype)(XML_Parser parser, XML_StartDoctypeDeclHandler begin);
    enum XML_Status (*parse)(XML_Parser parser, const char *text, int length, int is_final);
    enum XML_Status (*stop)(XML_Parser parser, XML_Bool resumable);
    enum XML_Error (*error_code)(XML_Parser parser);
    const XML_LChar *(*error_string)(enum XML_Error code);
    XML_Size (*line)(XML_Parser parser);
} expat;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct rt_symbol symbols[] = {
        { "XML_ParserCreate", &expat.create },
        { "XML_ParserFree", &expat.free },
        { "XML_SetUserData", &expat.set_user_data },
        { "XML_SetElementHandler", &expat.set_elements },
        { "XML_SetStartDoctypeDeclHandler", &expat.set_doctype },
        { "XML_Parse", &expat.parse },
        { "XML_StopParser", &expat.stop },
        { "XML_GetErrorCode", &expat.error_code },
        { "XML_ErrorString", &expat.error_string },
        { "XML_GetCurrentLineNumber", &expat.line },
    };
    void *library = dlopen("libexpat.so.1", RTLD_NOW | RTLD_LOCAL);

    loaded = library && rt_symbols_find(library, symbols, sizeof(symbols) / sizeof(*symbols));
}

bool rt_xml_available(const char **why)
{
    pthread_once(&once, load);
    *why = loaded ? NULL : "libexpat.so.1 is not installed (Debian: libexpat1)";
    return loaded;
}

struct rt_xml {
    const struct rt_xml_reader *reader;
    XML_Parser                  parser;
    const char                 *origin;
    struct rt_error            *error;
    unsigned                    depth, elements;
    bool                        failed;
};

unsigned rt_xml_line(const struct rt_xml *xml)
{
    return (unsigned)expat.line(xml->parser);
}

bool rt_xml_fail(struct rt_xml *xml, unsigned line, const char *format, ...)
{
    char why[512];
    va_list args;

    if (xml->failed)
        return false;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    xml->failed = true;
    rt_fail(xml->error, RINGTREE_INVALID_ARGUMENT, "%s, line %u: %s", xml->origin, line ? line : rt_xml_line(xml), why);
    expat.stop(xml->parser, XML_FALSE);
    return false;
}

static bool check_attributes(struct rt_xml *xml, const char *element, const char **attributes)
{
    if (strlen(element) > RT_XML_MOST_VALUE)
        return rt_xml_fail(xml, 0, "an element's name is over %d bytes long", RT_XML_MOST_VALUE);
    for (unsigned count = 0; *attributes; attributes += 2) {
        if (++count > RT_XML_MOST_ATTRIBUTES)
            return rt_xml_fail(xml, 0, "<%.40s> has over %d attributes", element, RT_XML_MOST_ATTRIBUTES);
        if (strlen(attributes[0]) > RT_XML_MOST_VALUE || strlen(attributes[1]) > RT_XML_MOST_VALUE)
            return rt_xml_fail(xml, 0, "an attribute of <%.40s> is over %d bytes long", element, RT_XML_MOST_VALUE);
    }
    return true;
}

static void XMLCALL begin_element(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct rt_xml *xml = data;

    if (xml->failed)
        return;
    if (++xml->depth > RT_XML_MOST_DEPTH)
        rt_xml_fail(xml, 0, "elements are nested over %d deep", RT_XML_MOST_DEPTH);
    else if (++xml->elements > RT_XML_MOST_ELEMENTS)
        rt_xml_fail(xml, 0, "there are over %d elements", RT_XML_MOST_ELEMENTS);
    else if (check_attributes(xml, name, attributes) &&
             !xml->reader->begin(xml->reader->context, xml, name, attributes))
        rt_xml_fail(xml, 0, "<%.40s> is not accepted", name);
}

static void XMLCALL end_element(void *data, const XML_Char *name)
{
    struct rt_xml *xml = data;

    if (xml->failed)
        return;
    xml->depth--;
    if (!xml->reader->end(xml->reader->context, xml))
        rt_xml_fail(xml, 0, "</%.40s> is not accepted", name);
}

/* hwloc's files name a DTD, which is not read; declarations of their own could be bombs. */
static void XMLCALL begin_doctype(void *data, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                                  int has_internal_subset)
{
    (void)name, (void)system, (void)public;
    if (has_internal_subset)
        rt_xml_fail(data, 0, "the file declares entities or elements of its own, which is not allowed");
}

static ringtree_status parse(struct rt_xml *xml, const char *text, size_t length)
{
    expat.set_user_data(xml->parser, xml);
    expat.set_elements(xml->parser, begin_element, end_element);
    expat.set_doctype(xml->parser, begin_doctype);
    if (expat.parse(xml->parser, text, (int)length, 1) == XML_STATUS_ERROR && !xml->failed)
        rt_xml_fail(xml, 0, "this is not XML: %s", expat.error_string(expat.error_code(xml->parser)));
    return xml->failed ? RINGTREE_INVALID_ARGUMENT : RINGTREE_OK;
}

ringtree_status rt_xml_read(const struct rt_xml_reader *reader, const char *text, size_t length, const char *origin,
                            struct rt_error *error)
{
    struct rt_xml xml = { .reader = reader, .origin = origin, .error = error };
    const char *why;

    if (!rt_xml_available(&why))
        return rt_fail(error, RINGTREE_UNSUPPORTED, "%s is XML, and %s", origin, why);
    if (length > INT32_MAX)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "%s is too large", origin);
    xml.parser = expat.create(NULL);
    if (!xml.parser)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to read %s", origin);
    const ringtree_status status = parse(&xml, text, length);
    expat.free(xml.parser);
    return status;
}

#else

bool rt_xml_available(const char **why)
{
    *why = "this ringtree was built without expat";
    return false;
}

ringtree_status rt_xml_read(const struct rt_xml_reader *reader, const char *text, size_t length, const char *origin,
                            struct rt_error *error)
{
    (void)reader, (void)text, (void)length;
    return rt_fail(error, RINGTREE_UNSUPPORTED, "%s is XML, and this ringtree was built without expat", origin);
}

bool rt_xml_fail(struct rt_xml *xml, unsigned line, const char *format, ...)
{
    (void)xml, (void)line, (void)format;
    return false;
}

unsigned rt_xml_line(const struct rt_xml *xml)
{
    (void)xml;
    return 0;
}
#endif
