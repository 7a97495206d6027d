# Wraps the text of a program's --help to `width` columns, for a man page, which indents it. Paragraphs are filled anew;
# an option ("  -n, --ranks N      how many") keeps its columns, and its lines that continue below it are joined to it.

function spaces(n) { return sprintf("%" n "s", "") }

# Where the description begins in "  -n N   how many": behind the first run of two spaces; 0: there is none.
function description_column(line, at)
{
    at = match(substr(line, indent + 1), /[^ ]   *[^ ]/)
    return at ? indent + RLENGTH + at - 2 : 0
}

function put_words(line, text, words, n, i, first)
{
    n = split(text, words, " ")
    first = 1
    for (i = 1; i <= n; i++) {
        if (!first && length(line) + 1 + length(words[i]) > width) {
            print line
            line = spaces(hang)
            first = 1
        }
        line = line (first ? "" : " ") words[i]
        first = 0
    }
    print line
}

function flush_item()
{
    if (!open_item) return
    if (head != "" && hang > width / 2) { # a long example: what it does goes below it
        sub(/ +$/, "", head)
        print head
        hang = indent + 6
        head = spaces(hang)
    }
    put_words(head == "" ? spaces(indent) : head, body)
    open_item = 0
}

{
    match($0, /^ */)
    depth = RLENGTH
}
/^ *$/ { flush_item(); print ""; next }
open_item && depth == hang && (depth == 0 || depth > 8) { body = body " " substr($0, depth + 1); next }
{
    flush_item()
    indent = depth
    column = depth ? description_column($0) : 0
    hang = column ? column : depth ? depth + 4 : 0
    head = column ? substr($0, 1, column) : ""
    body = substr($0, (column ? column : depth) + 1)
    open_item = 1
}
END { flush_item() }
