# Reads include/ringtree/ringtree.h and, by -v do_what=...
#   pages          writes man pages into the folder `out`: ringtree.3, one page per documented call, aliases for the
#                  calls that share a comment
#   functions      prints the name of every public function
#   undocumented   prints what has no comment directly above it
# The header is the only source, so the pages cannot go out of date. POSIX awk (mawk is enough).

function trim(text) { sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text); return text }

# roff: a backslash, a hyphen, and a dot or quote that begins a line mean something else there.
function roff(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/) text = "\\&" text
    return text
}

function comment_line(line)
{
    sub(/^[ \t]*\/\*/, "", line)
    sub(/\*\/.*$/, "", line)
    sub(/^[ \t]*\*/, "", line)
    sub(/^ /, "", line)
    return line
}

# The name that stands before the first "(" of a prototype.
function prototype_name(text)
{
    if (!match(text, /ringtree_[a-z0-9_]+\(/)) return ""
    return substr(text, RSTART, RLENGTH - 1)
}

function end_of_group()
{
    if (group_size) groups++
    group_size = 0
    comment = ""
}

function end_of_comment()
{
    if (comment ~ /^-----/) {
        title = comment
        sub(/\n.*/, "", title)
        sub(/^-+ [0-9]+\. /, "", title)
        section++
        section_title[section] = trim(title)
        body = comment
        if (!sub(/^[^\n]*\n/, "", body)) body = ""
        section_text[section] = body
        comment = ""
    } else if (!overview) {
        overview = comment
        comment = ""
    }
}

function end_of_statement(text, name)
{
    name = prototype_name(text)
    if (name && text !~ /^typedef/ && text ~ /\)[ \t\n]*;/) {
        if (comment == "") print_undocumented(name)
        if (!group_size) { group_comment[groups] = comment; group_section[groups] = section }
        group_name[groups, group_size] = name
        group_text[groups, group_size] = text
        group_count[groups] = ++group_size
        if (todo == "functions") print name
        return
    }
    sub(/^[ \t\n]+/, "", text)
    if (text ~ /^typedef/ && comment == "" && text !~ /\/\*/) print_undocumented(text)
    add_type(text, comment)
    comment = ""
}

# Types and constants, in the header's order. Lines that follow one another stay together.
function add_type(text, comment, next_to)
{
    if (type_count && next_to && comment == "" && type_section[type_count] == section) {
        types[type_count] = types[type_count] "\n" text
        return
    }
    types[++type_count] = text
    type_comment[type_count] = comment
    type_section[type_count] = section + 0
}

function print_undocumented(what)
{
    undocumented++
    if (todo == "undocumented") print what
}

BEGIN { todo = do_what; groups = 0 }

in_comment {
    comment = comment "\n" comment_line($0)
    if ($0 ~ /\*\//) { in_comment = 0; end_of_comment() }
    next
}
statement == "" && /^[ \t]*\/\*/ {
    end_of_group()
    comment = trim(comment_line($0))
    if ($0 ~ /\*\//) end_of_comment(); else in_comment = 1
    next
}
/^#define RINGTREE_[A-Z0-9_]+/ && !/_H$/ {
    add_type($0, "", NR == last_line + 1)
    last_line = NR
    next
}
/^#/ || /^extern "C"/ || /^}$/ { next }
/^[ \t]*$/ && statement == "" { end_of_group(); next }
{
    statement = statement (statement == "" ? "" : "\n") $0
    code = $0
    gsub(/\/\*[^*]*\*\//, "", code)
    depth += gsub(/{/, "{", code) - gsub(/}/, "}", code)
    if (depth == 0 && code ~ /;[ \t]*$/) { end_of_statement(statement); statement = ""; last_line = NR }
}

# ---- pages

function paragraphs(text, file, lines, n, i, verbatim, line)
{
    n = split(text, lines, "\n")
    verbatim = 0
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (verbatim && line !~ /^    / && line !~ /^$/) { print ".fi\n.RE" > file; verbatim = 0 }
        if (line ~ /^$/) {
            if (verbatim) print "" > file
            else if (i < n) print ".PP" > file
        } else if (line ~ /^    /) {
            if (!verbatim) print ".RS 4\n.nf" > file
            verbatim = 1
            print roff(substr(line, 5)) > file
        } else if (line ~ /^RINGTREE_[A-Z_]+  +/) {
            match(line, /^RINGTREE_[A-Z_]+/)
            print ".TP\n.B " roff(substr(line, 1, RLENGTH)) > file
            print roff(trim(substr(line, RLENGTH + 1))) > file
            if (lines[i + 1] !~ /^RINGTREE_[A-Z_]+  +/ && i < n) print ".PP" > file
        } else
            print roff(line) > file
    }
    if (verbatim) print ".fi\n.RE" > file
}

function code_block(text, file, lines, n, i)
{
    print ".nf" > file
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) print roff(lines[i]) > file
    print ".fi" > file
}

# The first sentence, on one line, for the NAME section.
function summary(text)
{
    gsub(/\n+/, " ", text)
    text = trim(text)
    if (match(text, /[.:;]( |$)/)) text = substr(text, 1, RSTART - 1)
    gsub(/`/, "", text)
    return text
}

function heading(name, file) { print ".TH " toupper(name) " 3 \"\" \"ringtree " version "\" \"ringtree\"" > file }

function function_page(g, file, i, alias, names)
{
    file = out "/" group_name[g, 0] ".3"
    heading(group_name[g, 0], file)
    print ".SH NAME" > file
    names = group_name[g, 0]
    for (i = 1; i < group_count[g]; i++) names = names ", " group_name[g, i]
    print roff(names) " \\- " roff(summary(group_comment[g])) > file
    print ".SH SYNOPSIS\n.nf\n.B #include <ringtree/ringtree.h>\n" > file
    for (i = 0; i < group_count[g]; i++) print roff(group_text[g, i]) > file
    print ".fi\n.SH DESCRIPTION" > file
    paragraphs(group_comment[g], file)
    if (section_text[group_section[g]] != "") {
        print ".SH COMMON TO THESE CALLS" > file
        paragraphs(section_text[group_section[g]], file)
    }
    print ".SH SEE ALSO\n.BR ringtree (3)" > file
    close(file)
    for (i = 1; i < group_count[g]; i++) {
        alias = out "/" group_name[g, i] ".3"
        print ".so man3/" group_name[g, 0] ".3" > alias
        close(alias)
    }
}

function types_of(s, file, i)
{
    for (i = 1; i <= type_count; i++) {
        if (type_section[i] != s) continue
        print ".PP" > file
        if (type_comment[i] != "") { paragraphs(type_comment[i], file); print ".PP" > file }
        code_block(types[i], file)
    }
}

function overview_page(file, s, g, i)
{
    file = out "/ringtree.3"
    heading("ringtree", file)
    print ".SH NAME\nringtree \\- " roff(summary(substr(overview, index(overview, ":") + 1))) > file
    print ".SH SYNOPSIS\n.nf\n.B #include <ringtree/ringtree.h>\n" > file
    print "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs ringtree)\n.fi\n.SH DESCRIPTION" > file
    paragraphs(overview, file)
    for (s = 1; s <= section; s++) {
        print ".SH " roff(toupper(section_title[s])) > file
        for (g = 0; g < groups; g++) {
            if (group_section[g] != s) continue
            for (i = 0; i < group_count[g]; i++) {
                print ".TP\n.BR " roff(group_name[g, i]) " (3)" > file
                print roff(summary(group_comment[g])) > file
            }
        }
        types_of(s, file)
    }
    print ".SH VERSION" > file
    types_of(0, file)
    print ".SH SEE ALSO" > file
    print ".BR ringtree\\-run (1),\n.BR ringtree\\-info (1),\n.BR ringtree\\-plan (1)" > file
    close(file)
}

END {
    end_of_group()
    if (todo == "pages") {
        for (g = 0; g < groups; g++) function_page(g)
        overview_page()
    }
    if (todo == "undocumented") exit undocumented > 0
}
