#!/bin/sh
# symbols_test.sh SHARED STATIC HEADER READER: the library exports what the header declares, all of it and nothing else;
# each declaration has its comment; the static library's names are ringtree's own.
set -eu
shared=$1 static=$2 header=$3 reader=$4
declared=$(awk -v do_what=functions -f "$reader" "$header" | sort)
exported=$(nm -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
[ "$(echo "$declared" | wc -l)" -gt 30 ] || { echo "FAILED: only these were found in $header: $declared"; exit 1; }
if [ "$declared" != "$exported" ]; then
    echo "FAILED: the header declares other names than $shared exports:"
    echo "declared: $declared" | tr '\n' ' '; echo
    echo "exported: $exported" | tr '\n' ' '; echo
    exit 1
fi
awk -v do_what=undocumented -f "$reader" "$header" || { echo "FAILED: these have no comment above them"; exit 1; }

# The checks can fail: a call without a comment, and one that is not in the library.
printf '/* about */\n\nint ringtree_nothing(void);\n' >undocumented.h
if awk -v do_what=undocumented -f "$reader" undocumented.h >/dev/null; then
    echo "FAILED: a missing comment passes"; exit 1
fi
if [ "$(awk -v do_what=functions -f "$reader" undocumented.h)" != ringtree_nothing ]; then
    echo "FAILED: a call is not seen"; exit 1
fi

foreign=$(nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $3 !~ /^(rt_|ringtree_)/ { print $3 }' |
    grep -v -E '^(__|_ITM|DW\.|asan|tsan|ubsan)' || true)
[ -z "$foreign" ] || { echo "FAILED: $static defines other names: $foreign"; exit 1; }
echo "$(echo "$declared" | wc -l) calls declared, documented, exported; nothing else"
