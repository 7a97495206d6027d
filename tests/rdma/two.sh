#!/bin/sh
# two.sh BOOT PERF: two virtual machines, one rank on each, joined by a socket that carries their network's frames.
boot=$1 perf=$2
here=$(dirname "$0")
folder=$(mktemp -d)
machine()
{
    wire="stream,id=n,addr.type=unix,addr.path=$folder/wire,server=$2"
    "$here/boot_rdma" "$boot" --timeout 150 --module virtio_net --module virtio_pci --file "$perf" \
        --qemu "-smp 1 -netdev $wire -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:0$1" -- "$here/pair.sh" "$1"
}
machine 0 on &
first=$!
while [ ! -S "$folder/wire" ] && kill -0 $first 2>/dev/null; do sleep 0.2; done
[ -S "$folder/wire" ] && machine 1 off
second=$?
wait $first
status=$?
rm -rf "$folder"
[ $status != 0 ] && exit $status
exit $second
