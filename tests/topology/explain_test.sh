#!/bin/sh
# explain_test.sh PROGRAM GOLDEN WORK [SANITIZER]: what is predicted for described machines, as recorded (GOLDEN=write
# writes it anew), and wrong questions. A file of a large machine takes seconds at most.
set -u
program=$1 golden=$2 work=$3 failures=0
mkdir -p "$work"
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

cpu=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
h100="node: 2 socket: 4 gpu nvlink:18 switch sm:90; 4 nic 400G"
cores="4 node: 2 socket: 2 core; nic 100G"
{
    for collective in all_reduce broadcast all_gather reduce_scatter all_to_all gather; do
        "$program" explain $collective -n 65536 -f "$h100" || fail "$collective is not explained"
    done
    "$program" explain all_reduce 64M -n 16 "$cores"
    "$program" explain all_reduce 4K -n 16 "$cores"
    "$program" explain reduce 1M -n 8 "node: 8 core"
    "$program" explain all_reduce 256M "node: 4 gpu pcie:4x16; nic 25G"
    "$program" explain all_reduce 64 -n 12 "3 node: 4 gpu nvlink:4 mesh; nic 10G"
    "$program" explain all_gather 1M -n 4 "4 node: core"
    for machine in "" --tcp; do # this one, as if it had one core
        taskset -c "$cpu" "$program" explain all_reduce 1M -n 4 $machine
        taskset -c "$cpu" "$program" explain broadcast -n 3 $machine
    done
} >"$work/explain.txt" 2>&1
if [ "${GOLDEN:-}" = write ]; then cp "$work/explain.txt" "$golden"; fi
diff -u "$golden" "$work/explain.txt" || fail "the predictions are others than recorded"

expect() {
    wanted=$1 words=$2
    shift 2
    "$program" "$@" >"$work/out" 2>&1
    status=$?
    [ $status = "$wanted" ] || fail "$*: status $status, not $wanted"
    grep -q -e "$words" "$work/out" || { fail "$*: does not say \"$words\""; cat "$work/out"; }
}
expect 2 'needs a collective' explain
expect 2 'no collective "all_reduced"' explain all_reduced
expect 2 'must be a number' explain all_reduce 0
expect 2 'must be a number' explain all_reduce 4Q
expect 2 'must be a number' explain all_reduce 4 -n 65537
expect 2 'column' explain all_reduce 4 "2 gpx"
expect 0 'among 6 ranks on 1 node' explain all_reduce 1M --ranks 6
expect 0 '\* ring  *verbs' explain all_reduce 64M "2 node: core; nic 1G" # a tree is predicted as fast, within what that is worth
expect 0 'by tcp: .* ucx is left out unless' explain all_reduce 1M --tcp
expect 0 'no port is described, 10 Gbit/s assumed' explain all_reduce 1M "2 node: core"
expect 0 'between nodes by verbs: .* RDMA assumed' explain all_reduce 1M "2 node: core; nic 100G"
machines=$(dirname "$golden")/machines
expect 0 'between nodes by verbs: .* its ports are RDMA devices' explain all_reduce 1M -n 64 -f "$machines/two-sockets.hwloc.xml"
expect 0 'verbs  *impossible: no port of it is an RDMA' explain all_reduce 1M -n 64 -f "$machines/vm-four-numa.hwloc.xml"
expect 0 '\* .* tcp ' explain all_reduce 1M -n 64 -f "$machines/vm-four-numa.hwloc.xml"
expect 0 'connections of a lane, .*; 1: no measurement says' explain all_reduce 1M "2 node: core; nic 100G"
expect 0 'among 6 ranks on 6 nodes' explain all_reduce 1M --ranks 6 --tcp
nodes="4 node: core; nic 1G"
expect 0 '16777216 float32 with codec q8: q8; links .* are slow. Links between nodes: 0.1' explain all_reduce 64M --codec q8 "$nodes"
# with a sanitizer a core may encode more slowly than a link of 1 Gbit/s carries
[ -n "${4:-}" ] && best='[a-z0-9]*;' || best='q8; predicted'
expect 0 "as fast as on this machine: .* with codec auto: $best" explain all_reduce 64M --codec auto "$nodes"
expect 0 '^  topk .* predicted$' explain all_reduce 64M --codec auto,topk:0.01,feedback "$nodes"
expect 0 '^  fp16 .*, not allowed$' explain all_reduce 64M --codec auto "$nodes"
expect 0 'exact; links of 10 GB/s are not below' explain all_reduce 64M --codec auto "4 node: core; nic 100G"
expect 0 'exact; all ranks share memory' explain broadcast 1M --codec auto "node: 4 core"
expect 0 "1048576  $best" explain all_reduce --codec auto -f "$nodes"
expect 2 'no word of a codec' explain all_reduce 1M --codec q9
expect 2 'ratio 0.9 is not from' explain all_reduce 1M --codec topk:0.9
expect 2 'no call with a codec is gather' explain gather 1M --codec q8
expect 2 'is for explain' show --codec q8 "$nodes"
[ $failures = 0 ]
