# Inside the virtual machine: the ucx transport over UCX's connections and datagrams on soft-RoCE, alone, between
# pretended hosts and under NCCL's plugin. The GID is an IPv6 address, since UCX's datagrams, by which its connections are made too, do not
# arrive by soft-RoCE's IPv4.
. /vm/soft_roce.sh
soft_roce 0 10.77.0.1/24 || exit 1
export UCX_IB_GID_INDEX=0
failed=0
# quietly NAME PROGRAM arguments...: its output in /tmp/out, shown if it failed
quietly()
{
    name=$1
    shift
    "$@" > /tmp/out 2>&1 && { echo "$name: as it should be"; return; }
    echo "FAILED: $name"; tail -n 30 /tmp/out; failed=1
}
# reduce TLS RANKS TRANSPORT: checked element by element; UCX tells which transport of its own carried it
reduce()
{
    quietly "$1, all_reduce among $2" env UCX_TLS="$1,self" UCX_LOG_LEVEL=info \
        all_reduce_perf -g "$2" --transport ucx -b 8 -e 512K -f 256 -n 5 -w 1
    grep -q "am($3/rxe0:1)" /tmp/out || { echo "FAILED: it did not go over $3"; cat /tmp/out; failed=1; }
    grep -E '^ +[0-9]' /tmp/out
}
reduce rc_v 2 rc_verbs
reduce rc_v 3 rc_verbs
reduce ud_v 2 ud_verbs
quietly "rc_v, matrix of 2 ranks" env UCX_TLS=rc_v,self api_matrix --place ucx-processes --ranks 2 --cells 2
quietly "rc_v, matrix of two hosts" env UCX_TLS=rc_v,self api_matrix --place ucx-two-hosts --ranks 4 --cells 1
quietly "NCCL's plugin" env UCX_TLS=rc_v,self RINGTREE_TRANSPORTS=ucx nccl_net_plugin with_version_11
exit $failed
