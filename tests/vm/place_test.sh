#!/bin/sh
# place_test.sh BOOT BIN PLACED FOLDER: on a virtual machine of four NUMA nodes ranks keep to their share of them, with
# their memory, unless somebody has bound them. GOLDEN=write writes the golden text anew, to be read before it is
# committed.
set -u
boot=$1 bin=$2 placed=$3 folder=$4
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

"$boot" --file "$bin/ringtree-run" --file "$bin/ringtree-info" --file "$bin/ringtree-topo" --file "$placed" \
    --library libhwloc.so.15 --module virtio_pci --module virtio_net --timeout 150 \
    --qemu "$(grep -v '^#' "$folder/two-sockets.qemu")" -- "$folder/place.sh" >"$seen"
status=$?
[ $status = 77 ] && exit 77
[ $status = 0 ] || { echo "FAILED: status $status"; cat "$seen"; exit 1; }
if [ "${GOLDEN:-}" = write ]; then cp "$seen" "$folder/place.golden"; fi
diff -u "$folder/place.golden" "$seen" || { echo "FAILED: ranks run elsewhere"; exit 1; }
