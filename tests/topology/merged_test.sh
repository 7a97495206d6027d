#!/bin/sh
# merged_test.sh RUN TOPO GOLDEN: the ranks of a launcher, here on two kinds of machines, show them as one system.
set -u
run=$1 topo=$2 golden=$3 failed=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
expect() { # STATUS "what is said" ringtree-run's arguments...
    wanted=$1 words=$2
    shift 2
    "$run" "$@" >"$out" 2>&1
    status=$?
    [ $status = "$wanted" ] || { echo "FAILED: status $status, not $wanted: $*"; cat "$out"; failed=1; }
    grep -q -e "$words" "$out" || { echo "FAILED: does not say \"$words\": $*"; cat "$out"; failed=1; }
}
on='case $RINGTREE_RANK in 0|1|4) RINGTREE_HOST=big; m="2 socket: 2 core; nic 200G";;
    *) RINGTREE_HOST=host$RINGTREE_RANK; m="socket: core; nic 100G";; esac
    export RINGTREE_HOST RINGTREE_TOPOLOGY="$m"; exec "$0" "$@"'

expect 0 'host3 (ranks 3)' -n 5 --no-prefix sh -c "$on" "$topo" show --merged
[ "${GOLDEN:-}" != write ] || cp "$out" "$golden"
diff -u "$golden" "$out" || { echo "FAILED: the system is shown differently"; failed=1; }
expect 0 '</svg>' -n 3 --no-prefix sh -c "$on" "$topo" draw --merged
expect 2 'takes the machines of the ranks, no FILE' -n 2 "$topo" show --merged "2 gpu"
expect 2 'RINGTREE_TOPOLOGY: .*"gpx" is no kind' -n 2 env RINGTREE_TOPOLOGY=gpx: "$topo" show --merged
expect 1 'idle or badly seated' -n 2 --no-prefix env 'RINGTREE_TOPOLOGY=socket: 2 gpu pcie:1x16' "$topo" check --merged
expect 0 'ranks 0-1' -n 2 "$topo" show --merged
exit $failed
