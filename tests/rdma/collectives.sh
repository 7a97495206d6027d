# Inside the virtual machine: collectives over verbs alone, and over shared memory with verbs between pretended hosts.
. /vm/soft_roce.sh
soft_roce 0 10.77.0.1/24 || exit 1
failed=0
matrix() { echo "matrix: $*"; api_matrix "$@" > /tmp/out 2>&1 || failed=1; tail -n 3 /tmp/out; }
matrix --place verbs-processes --ranks 2 --cells 4
matrix --place verbs-processes --ranks 5 --cells 2
matrix --place verbs-two-hosts --ranks 4 --cells 2
for ranks in 2 3; do
    all_reduce_perf -g $ranks --transport verbs -b 8 -e 512K -f 256 -n 5 -w 1 > /tmp/out || failed=1
    grep -E '^ +[0-9]|Out of bounds' /tmp/out
done
exit $failed
