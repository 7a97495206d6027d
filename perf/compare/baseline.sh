#!/bin/sh
# perf/compare/baseline.sh OUT [FLAGS...]: takes the whole comparison into OUT in pieces of under two minutes, each
# added to OUT/compare.json as it ends, so that what was interrupted goes on: OUT/done names the pieces that are there.
# AROUND="command" runs each piece under it (to keep a machine quiet). FLAGS go to perf/compare, as --build DIR.
set -u
out=$1
shift
here=$(dirname "$0")
small=4,56,1K,16K,64K,1M,4M large=16M,64M
mkdir -p "$out"
touch "$out/done"

piece()
{
    name=$(echo "$*" | tr ' ' '_')
    if grep -qxF -e "$name" "$out/done"; then return; fi
    echo "==== $*"
    ${AROUND:-} python3 "$here" --out "$out" --budget-ms 20 $flags "$@" && echo "$name" >>"$out/done"
}

flags=$*
piece --only all_reduce --ranks 2 --sizes $small
piece --only all_reduce --ranks 2 --sizes $large --peers openmpi,intel
piece --only all_reduce --ranks 2 --transport tcp --sizes $small --memory private
piece --only all_reduce --ranks 2 --transport tcp --sizes $large --memory private --peers openmpi,intel
piece --only all_reduce --ranks 4 --sizes $small --peers openmpi,intel
piece --only all_reduce --ranks 4 --sizes $large --peers openmpi
piece --only all_reduce --ranks 8 --sizes 4,1K,256K,4M --peers openmpi
piece --only all_reduce --ranks 2 --transport netns --sizes $small --memory private --peers openmpi,mpich
piece --only all_reduce --ranks 4 --transport tcp --sizes 4,1K,64K,1M,16M --memory private --peers openmpi
for collective in reduce_scatter,all_gather broadcast,reduce gather,scatter all_to_all,barrier,send_recv; do
    piece --only $collective --ranks 2 --sizes 4,1K,64K,1M --peers openmpi,mpich,intel
    piece --only $collective --ranks 2 --sizes 16M,64M --place out --peers openmpi,intel --rounds 3
    piece --only $collective --ranks 4 --sizes 4,1K,64K,1M,16M --place out --peers openmpi
done
