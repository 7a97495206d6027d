/*
 * XML from outside, element by element, through expat, which is loaded when it is first needed. Hostile text costs
 * nothing: it is bounded in bytes, depth, elements and length of values, and declares no entities.
 */
#ifndef RT_XML_H
#define RT_XML_H

#include "base/error.h"
#include <stddef.h>

#define RT_XML_MOST_DEPTH      64
#define RT_XML_MOST_ELEMENTS   200000
#define RT_XML_MOST_ATTRIBUTES 64 /* of an element */
#define RT_XML_MOST_VALUE      1024 /* bytes of an attribute's name or value */

struct rt_xml; /* the reading that is under way */

struct rt_xml_reader {
    void *context;
    /* `attributes` is name, value, name, value, NULL. false: refused with rt_xml_fail(). */
    bool (*begin)(void *context, struct rt_xml *xml, const char *element, const char **attributes);
    bool (*end)(void *context, struct rt_xml *xml);
};

/* `origin` begins the sentences of errors: "FILE, line 3: ...". Without expat: RINGTREE_UNSUPPORTED. */
ringtree_status rt_xml_read(const struct rt_xml_reader *reader, const char *text, size_t length, const char *origin,
                            struct rt_error *error);

/* The element that is being looked at cannot be; returns false. Line 0: the current one. */
bool rt_xml_fail(struct rt_xml *xml, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));
unsigned rt_xml_line(const struct rt_xml *xml);

/* The value of an attribute, or NULL. */
const char *rt_xml_value(const char **attributes, const char *name);

/* Whether expat can be used here; if not, *why says why. */
bool rt_xml_available(const char **why);

#endif
