#!/bin/sh
# tune_test.sh PROGRAM WORK: what ringtree-tune keeps in a file is taken from it, a part that was cut off is measured again,
# and a measurement in pieces goes on where it stopped.
set -u
program=$1 work=$2 failures=0
rm -rf "$work" && mkdir -p "$work"
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
RINGTREE_CACHE_DIR=$work
export RINGTREE_CACHE_DIR

tune() { "$program" -n 2 -t shm -C broadcast,reduce -b 8 -e 64 -r 1 -s 0 -k "$work/kept.csv" "$@"; }
tune -o "$work/table.1" || fail "it does not measure"
grep -q '^shm,2,broadcast,64,tree,' "$work/kept.csv" || fail "the file has no such line"
[ "$(grep -c '^# done' "$work/kept.csv")" = 2 ] || fail "the file has other parts than two"
tune -o "$work/table.2" || fail "it does not take what is kept"
cmp "$work/table.1" "$work/table.2" || fail "what is kept gives another table"
[ "$(grep -c '^# done' "$work/kept.csv")" = 2 ] || fail "what is kept was measured again"
sed -i '$d' "$work/kept.csv"
tune -o "$work/table.3" || fail "a part that was cut off ends it"
[ "$(grep -c '^# done' "$work/kept.csv")" = 2 ] || fail "a part that was cut off was not measured again"
rm "$work/kept.csv"
tune -m 0.000001 -o "$work/table.4"
[ $? = 4 ] || fail "it does not say that there is more"
[ "$(grep -c '^# done' "$work/kept.csv")" = 1 ] || fail "a piece is not one part"
tune -m 1 -o "$work/table.5" || fail "it does not go on"
# Among two ranks every all_gather is one message each way: no way of it is told from another by noise.
"$program" -n 2 -t tcp -C all_gather -b 8 -e 1024 -r 1 -s 0 -o "$work/table.6" || fail "it does not measure TCP"
rows=$(sed -n 's/^correction tcp all_gather [a-z]* 2 //p' "$work/table.6")
[ "$(echo "$rows" | wc -l)" = 4 ] && [ "$(echo "$rows" | sort -u | wc -l)" = 1 ] || fail "equal work has other costs: $rows"
"$program" -m 1 2>"$work/said"
[ $? = 2 ] && grep -q 'needs --keep' "$work/said" || fail "minutes without a file are taken"
[ $failures = 0 ]
