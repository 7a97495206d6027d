#!/bin/sh
# discover_test.sh BOOT TOPO FOLDER: a virtual machine of two sockets, four NUMA nodes and a PCI tree is seen as what it
# is. GOLDEN=write writes the golden text anew, to be read before it is committed.
set -u
boot=$1 topo=$2 folder=$3
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

"$boot" --file "$topo" --library libhwloc.so.15 --library libexpat.so.1 --module virtio_pci --module virtio_net \
    --qemu "$(grep -v '^#' "$folder/two-sockets.qemu")" -- "$folder/discover.sh" >"$seen"
status=$?
[ $status = 77 ] && exit 77
if grep -q 'built without hwloc' "$seen"; then echo "skipped: $(cat "$seen")"; exit 77; fi
[ $status = 1 ] || { echo "FAILED: status $status, not the 1 of a check that finds slow links"; cat "$seen"; exit 1; }
if [ "${GOLDEN:-}" = write ]; then cp "$seen" "$folder/two-sockets.golden"; fi
diff -u "$folder/two-sockets.golden" "$seen" || { echo "FAILED: the machine is seen differently"; exit 1; }
