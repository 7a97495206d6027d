#!/bin/sh
# program.sh PROGRAM NAME VERSION SUMMARY PAGE: a man page around what PROGRAM --help prints.
set -eu
program=$1 name=$2 version=$3 summary=$4 page=$5
help=$("$program" --help)
[ -n "$help" ] || { echo "$name --help printed nothing" >&2; exit 1; }
{
    printf '.TH %s 1 "" "ringtree %s" "ringtree"\n' "$(printf %s "$name" | tr '[:lower:]' '[:upper:]')" "$version"
    printf '.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "$name" "$summary"
    printf '%s\n' "$help" | sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
    printf '.fi\n.SH SEE ALSO\n.BR ringtree (3)\n'
} >"$page.part"
mv "$page.part" "$page"
