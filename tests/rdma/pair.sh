# Inside each of two virtual machines, joined by a network card: rank $1 of two. Each line of the plan runs on both at
# the same time: the network is spoilt, then an all_reduce is checked, element by element, over verbs alone.
. /vm/soft_roce.sh
rank=$1
card=$(ls /sys/class/net | grep -v -e lo -e dummy | head -n 1)
ip addr add "10.78.0.$((rank + 1))/24" dev "$card" && ip link set "$card" up || exit 1
rdma link add rxe0 type rxe netdev "$card" || exit 1
export RINGTREE_ROOT=10.78.0.1:7000 RINGTREE_RANK=$rank RINGTREE_SIZE=2 RINGTREE_TIMEOUT_MS=30000
export RINGTREE_VERBS_TIMEOUT=14 RINGTREE_SECRET_FILE=/tmp/secret
echo 'the secret that both machines know' > /tmp/secret; chmod 600 /tmp/secret
failed=0
# reduce NAME WANTED-STATUS all_reduce_perf's arguments...: its output in /tmp/out
reduce()
{
    name=$1 wanted=$2
    shift 2
    begun=$(cut -d. -f1 /proc/uptime)
    all_reduce_perf --transport verbs -w 1 "$@" > /tmp/out 2>&1
    status=$?
    took=$(($(cut -d. -f1 /proc/uptime) - begun))
    [ $status = "$wanted" ] && [ $took -lt 40 ] && { echo "rank $rank: $name: as it should be, $took s"; return; }
    echo "FAILED: rank $rank: $name: status $status after $took s"; cat /tmp/out; failed=1
}
spoil() { /vm/tc qdisc replace dev "$card" root netem "$@"; }

tries=0 # the other machine may still be starting
until ping -c 1 -W 1 "10.78.0.$((2 - rank))" > /dev/null 2>&1 || [ $((tries += 1)) -gt 60 ]; do :; done
reduce "a sound network" 0 -b 8 -e 1M -f 64 -n 5
spoil delay 2ms 1ms
reduce "delay" 0 -b 8 -e 32K -f 64 -n 3
spoil loss 1%
reduce "loss" 0 -b 8 -e 256K -f 64 -n 3
spoil delay 3ms reorder 75% 50%
reduce "reordering" 0 -b 8 -e 64K -f 64 -n 2
/vm/tc qdisc del dev "$card" root

# Down and up again, while much is under way: the connection or the next one carries on. By what the planner takes, and
# by the ring in slices of 8 KiB, of which many go one after another. A moment's outage does not end on tcp.
export RINGTREE_TIMEOUT_MS=16000 # a quarter of it is waited for what soft-RoCE holds back
down_and_up()
{
    name=$1 outage=$2
    shift 2
    [ $rank = 1 ] && { sleep 2; ip link set "$card" down; sleep "$outage"; ip link set "$card" up; } &
    RINGTREE_LOG=warn reduce "link down for $outage s, $name" 0 -b 1M -e 1M -n "$@"
    echo "rank $rank: broke $(grep -c ' broke: ' /tmp/out) times, on to tcp $(grep -c 'goes on over tcp' /tmp/out) times"
    wait
}
down_and_up "as planned" 0.05 8
grep 'goes on over tcp' /tmp/out && { echo "FAILED: rank $rank: a port that came back was not waited for"; failed=1; }
down_and_up "as planned" 2 8
export RINGTREE_ALGORITHM=ring RINGTREE_SLICE_BYTES=8K
down_and_up "ring of 8 KiB" 0.3 8
unset RINGTREE_ALGORITHM RINGTREE_SLICE_BYTES
export RINGTREE_TIMEOUT_MS=30000

# The other machine's process is killed: named at once.
[ $rank = 1 ] && { sleep 2; kill -9 $(pidof all_reduce_perf); } &
if [ $rank = 0 ]; then
    RINGTREE_LOG=warn reduce "the peer is killed" 3 -b 1M -e 1M -n 2000
    grep -q 'rank 1' /tmp/out || { echo "FAILED: rank 1 is not named"; cat /tmp/out; failed=1; }
else
    all_reduce_perf --transport verbs -w 1 -b 1M -e 1M -n 2000 > /tmp/out 2>&1
fi
wait
exit $failed
