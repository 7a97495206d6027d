#!/bin/sh
# program.sh AWK PROGRAM NAME VERSION SUMMARY PAGE FLAG: a man page around what PROGRAM FLAG prints, 80 columns wide with
# the indentation that man adds. Settings of whoever builds are not to be in it.
set -eu
awk=$1 program=$2 name=$3 version=$4 summary=$5 page=$6 flag=$7
help=$(env -i "$program" "$flag" | "$awk" -v width=72 -f "$(dirname "$0")/wrap.awk")
[ -n "$help" ] || { echo "$program $flag printed nothing" >&2; exit 1; }
{
    printf '.TH %s %s "" "ringtree %s" "ringtree"\n' "$(printf %s "$name" | tr '[:lower:]' '[:upper:]')" "${page##*.}" "$version"
    printf '.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' "$name" "$summary"
    printf '%s\n' "$help" | sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
    printf '.fi\n.SH SEE ALSO\n.BR ringtree (3)\n'
} >"$page.part"
mv "$page.part" "$page"
