#!/bin/sh
# topo_test.sh PROGRAM MACHINES WORK: every machine of the folder is shown, searched, checked, drawn and dumped; what
# show and check say is compared with MACHINES/golden. GOLDEN=write makes it anew, to be read before it is committed.
set -u
program=$1 machines=$2 work=$3 failures=0
golden=$machines/golden
mkdir -p "$work" "$golden"

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

for file in "$machines"/*.xml "$machines"/*.machine; do
    name=$(basename "$file") out=$work/$(basename "$file").txt svg=$work/$(basename "$file").svg
    (cd "$machines" && "$program" show "$name" && echo && "$program" check "$name") >"$out" 2>&1
    status=$?
    if grep -q -e 'built without' -e 'is not installed' "$out"; then
        echo "skipped: $(tail -n 1 "$out")"
        skipped=1 # as is then reading back what is dumped, below: the XML files come first
        continue
    fi
    [ $status -le 1 ] || fail "$name: status $status: $(tail -n 1 "$out")"
    if [ "${GOLDEN:-}" = write ]; then cp "$out" "$golden/$name.txt"; fi
    diff -u "$golden/$name.txt" "$out" || fail "$name is shown differently"
    "$program" draw "$file" -o "$svg" || fail "$name is not drawn"
    if command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$svg" || fail "$name: the drawing is no XML"
    fi
    "$program" compare "$file" "$file" >/dev/null || fail "$name differs from itself"
    "$program" dump "$file" -o "$work/dump.xml" || fail "$name is not dumped"
    [ -n "${skipped:-}" ] || "$program" show "$work/dump.xml" >/dev/null || fail "the dump of $name is not read"
    case $name in
    kvm* | two*) ;; # one rank: no rings
    *)
        "$program" dump --rings "$file" -o "$work/rings.xml" || fail "the rings of $name are not dumped"
        [ -n "${skipped:-}" ] || "$program" dump --rings "$file" --graph "$work/rings.xml" | cmp -s - "$work/rings.xml" ||
            fail "the rings of $name are not read as they were written" ;;
    esac
done

# Wrong uses, and outcomes that are not 0.
expect() {
    wanted=$1 words=$2
    shift 2
    "$program" "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$wanted" ] || fail "$*: status $status, not $wanted"
    grep -q -e "$words" "$work/out" || { fail "$*: does not say \"$words\""; cat "$work/out"; }
}
expect 2 'needs a command'
expect 2 'no command "paint"' paint
expect 2 'one machine too many' show "2 gpu" "3 gpu"
expect 2 'there is no file /nowhere.xml' show /nowhere.xml
expect 2 'column 3 of the machine' show "2 gpx"
expect 3 'cannot write /nowhere/out' show "2 gpu" -o /nowhere/out
expect 0 '^Usage' --help
expect 1 '^+ gpu 2' compare "2 gpu" "3 gpu"
expect 0 'are alike' compare "2 gpu" "2 gpu"
expect 0 'nothing found' check "socket: pci pcie:4x16: 2 gpu pcie:4x16; nic pcie:4x16"
expect 0 '65536 ranks on 8192 machines' show "8192 node: 2 socket: 4 gpu nvlink:18 switch sm:90; 4 nic 400G"
if command -v rsvg-convert >/dev/null; then
    "$program" draw "2 gpu nvlink:4 mesh" -o "$work/two.png" || fail "PNG is not drawn"
    head -c 4 "$work/two.png" | grep -q PNG || fail "two.png is no PNG"
else
    echo "skipped: PNG: no rsvg-convert"
fi
[ $failures = 0 ] || { echo "$failures failures"; exit 1; }
[ -z "${skipped:-}" ] || exit 77
