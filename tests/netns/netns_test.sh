#!/bin/sh
# netns_test.sh PROGRAM [ucx]: network namespaces on a bridge stand for separate hosts: nothing is shared but the network.
# Makes only namespaces of its own, and removes them however it ends. 77: skipped.
set -eu
program=$1
id=rt$$
work=$(mktemp -d "${TMPDIR:-.}/netns.XXXXXX")
hosts=""

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; cat "$work"/out.* 2>/dev/null || true; exit 1; }

cleanup()
{
    for host in switch $hosts; do
        ip netns pids "$id-$host" 2>/dev/null | while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done
        ip netns delete "$id-$host" 2>/dev/null || true
    done
    rm -rf "$work"
}

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "ip (iproute2) is missing"
trap cleanup EXIT
trap 'exit 1' INT TERM
ip netns add "$id-switch" 2>"$work/why" || skip "no network namespaces here: $(cat "$work/why")"
ip -n "$id-switch" link add br0 type bridge 2>"$work/why" || skip "no bridges here: $(cat "$work/why")"
ip -n "$id-switch" link set br0 up

# add_host NUMBER: a namespace with eth0 on the bridge, and what every host has with the same address and leads nowhere:
# a docker0 with a container's wire, and a usb0 that has only a link-local address.
add_host()
{
    hosts="$hosts h$1"
    ip netns add "$id-h$1"
    ip -n "$id-h$1" link set lo up
    [ "$1" = 1 ] || ip -n "$id-h$1" link add aside type bridge # eth0 has another number than on host 1
    ip link add "v$1" netns "$id-switch" type veth peer name eth0 netns "$id-h$1"
    ip -n "$id-switch" link set "v$1" master br0 up
    ip -n "$id-h$1" link set eth0 up
    ip -n "$id-h$1" addr add "fe80::$1/64" dev eth0 nodad
    ip -n "$id-h$1" link add docker0 type bridge
    ip -n "$id-h$1" link add container type veth peer name nowhere
    ip -n "$id-h$1" link add usb0 type veth peer name gadget
    ip -n "$id-h$1" link set container master docker0
    for up in docker0 container nowhere usb0 gadget; do ip -n "$id-h$1" link set $up up; done
    ip -n "$id-h$1" addr add 172.17.0.1/16 dev docker0
    ip -n "$id-h$1" addr add 169.254.3.1/16 dev usb0
}
add_ipv6() { ip -n "$id-h$1" addr add "fd99::$1/64" dev eth0 nodad; }
add_ipv4() { ip -n "$id-h$1" addr add "10.99.0.$1/24" dev eth0; }

umask 077
echo 00112233445566778899aabbccddeeff >"$work/secret"

# start RANK SIZE HOST ROOT arguments...: one rank in the background, its output in out.RANK, its status in status.RANK
start()
{
    rank=$1 size=$2 host=$3 root=$4
    shift 4
    (
        set +e
        ip netns exec "$id-h$host" env RINGTREE_RANK="$rank" RINGTREE_SIZE="$size" RINGTREE_ROOT="$root" \
            RINGTREE_SECRET_FILE="$work/secret" RINGTREE_TIMEOUT_MS="${timeout_ms:-20000}" $settings \
            timeout -k 5 60 "$program" "$@" >"$work/out.$rank" 2>&1
        echo $? >"$work/status.$rank"
    ) &
}

# finish SIZE: all ranks ended with 0
finish()
{
    wait
    rank=0
    while [ $rank -lt "$1" ]; do
        [ "$(cat "$work/status.$rank")" = 0 ] || fail "$what: rank $rank ended with $(cat "$work/status.$rank")"
        rank=$((rank + 1))
    done
}

# check WHAT HOSTS PER_HOST ROOT: PER_HOST ranks on each host, results right, shared memory inside hosts, TCP between
check()
{
    what=$1
    size=$(($2 * $3))
    rank=0
    while [ $rank -lt "$size" ]; do
        start $rank "$size" $((rank / $3 + 1)) "$4" check
        rank=$((rank + 1))
    done
    finish "$size"
    rank=0
    while [ $rank -lt "$size" ]; do
        grep -q "rank $rank of $size: $3 share its memory" "$work/out.$rank" || fail "$what: $rank shares otherwise"
        grep -q "on $2 nodes" "$work/out.$rank" || fail "$what: the plan sees other nodes"
        grep -q "transport .*$by" "$work/out.$rank" || fail "$what: the plan does not use $by between hosts"
        [ "$3" = 1 ] || grep -q "transport .*shm" "$work/out.$rank" || fail "$what: no shared memory inside hosts"
        rank=$((rank + 1))
    done
    echo "ok: $what"
}

# look WHAT PORT WORDS: two hosts whose plan has these words; three times, as both may be on one core while a link is
# measured, which does not count
look()
{
    for port in "$2" $(($2 + 10)) $(($2 + 20)); do
        check "$1" 2 1 "10.99.0.1:$port"
        ! grep -q "$3" "$work/out.0" || return 0
    done
    fail "$1: the plan does not know"
}

settings=""
by=tcp
for host in 1 2 3 4; do add_host $host; done

# At first there are only link-local addresses, each of which is one of the reader's own interface; then IPv6, then IPv4.
settings="RINGTREE_INTERFACE==eth0"
check "three hosts, link-local addresses only" 3 1 "[fe80::1%eth0]:29516"
settings=""
for host in 1 2 3 4; do add_ipv6 $host; done
check "two hosts, IPv6 only" 2 2 "[fd99::1]:29517"
for host in 1 2 3 4; do add_ipv4 $host; done
check "two hosts, one rank each" 2 1 "10.99.0.1:29518"
check "two hosts, three ranks each" 2 3 "10.99.0.1:29519"
check "four hosts, two ranks each" 4 2 "10.99.0.1:29520"
sent() { ip netns exec "$id-h$1" cat "/sys/class/net/$2/statistics/tx_bytes"; }
for host in 1 2 3 4; do
    [ "$(sent $host eth0)" -gt 1000000 ] || fail "host $host sent $(sent $host eth0) bytes over eth0"
    for other in docker0 usb0; do
        [ "$(sent $host $other)" -lt 20000 ] || fail "host $host sent $(sent $host $other) bytes over $other"
    done
done
echo "ok: all of it went over eth0"
settings="RINGTREE_INTERFACE=eth"
check "four hosts, RINGTREE_INTERFACE" 4 1 "10.99.0.1:29521"

# At 160 Mbit/s a row of long messages takes longer than the measurement may: what it shows counts all the same.
if ip netns exec "$id-h1" tc qdisc add dev eth0 root tbf rate 160mbit burst 32kb latency 50ms 2>/dev/null; then
    settings="RINGTREE_CALIBRATE=always RINGTREE_CALIBRATE_MS=5"
    look "two hosts, a slow link that is measured" 29526 "slowest link: network, .* us, 0\.0[1-3] GB/s (measured)"
    ip netns exec "$id-h1" tc qdisc delete dev eth0 root
fi

# limit_flows HOST PORT: connections share 16 classes of 1 Gbit/s by their port on host 1, which dials
limit_flows()
{
    tc="ip netns exec $id-h$1 tc"
    $tc qdisc add dev eth0 root handle 1: htb default 10 r2q 10000 2>/dev/null || return 1
    for class in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do
        $tc class add dev eth0 parent 1: classid 1:1$class htb rate 1gbit burst 64k cburst 64k 2>/dev/null || return 1
        $tc filter add dev eth0 parent 1: protocol ip u32 match ip "$2" $((0x$class * 2)) 0x001e flowid 1:1$class \
            2>/dev/null || return 1
    done
}
if limit_flows 1 sport && limit_flows 2 dport; then
    settings="RINGTREE_CALIBRATE=always RINGTREE_INTERFACE==eth0"
    look "two hosts, a network that limits each connection" 29527 "^\* .* of [0-9]* connections"
    grep -q "connections of a lane: 1 .* one carries less than the link" "$work/out.0" || fail "$what: nobody says why"
    settings="$settings RINGTREE_TCP_SOCKETS=3"
    check "two hosts, as many connections as are asked for" 2 1 "10.99.0.1:29528"
    grep -q "^\* .* of 3 connections" "$work/out.0" || fail "$what: others are chosen"
    grep -q "3: RINGTREE_TCP_SOCKETS is set" "$work/out.0" || fail "$what: nobody says why"
fi
for host in 1 2; do ip netns exec "$id-h$host" tc qdisc delete dev eth0 root 2>/dev/null || true; done
settings="RINGTREE_CALIBRATE=off RINGTREE_INTERFACE==eth0"
check "two hosts, a network that is not measured" 2 1 "10.99.0.1:29529"
grep -q "slowest link: network, 4.00 us, .*(assumed of namespaces on one machine)" "$work/out.0" ||
    fail "$what: nobody says what is assumed"
settings="RINGTREE_INTERFACE=eth"

if [ "${2:-}" = ucx ]; then
    by=ucx
    settings="RINGTREE_TRANSPORTS=shm,ucx"
    check "two hosts, one rank each, over UCX" 2 1 "10.99.0.1:29524"
    check "two hosts, three ranks each, over UCX" 2 3 "10.99.0.1:29525"
    by=tcp
fi

what="an interface that does not exist"
settings="RINGTREE_INTERFACE==nosuch0"
start 0 2 1 "10.99.0.1:29522" check
wait
[ "$(cat "$work/status.0")" = 1 ] || fail "$what is accepted"
for word in nosuch0 eth0 docker0 RINGTREE_INTERFACE; do
    grep -q "$word" "$work/out.0" || fail "$what: its sentence does not say $word"
done
echo "ok: $what is an error that lists the others"

what="a host that is cut off"
settings="" timeout_ms=3000
for rank in 0 1 2 3; do start $rank 4 $((rank / 2 + 1)) "10.99.0.1:29523" stream 6; done
tries=0
until [ "$(grep -l streaming "$work"/out.[0-3] 2>/dev/null | wc -l)" = 4 ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "$what: the ranks did not start"
    sleep 0.1
done
sleep 0.5
ip -n "$id-h2" link set eth0 down
finish 4
for rank in 0 1; do
    grep -q -E 'RINGTREE_(TIMEOUT|PEER_LOST).*rank [23]' "$work/out.$rank" || fail "$what is not named by rank $rank"
done
echo "ok: $what is named by the others in time"
