# Inside the virtual machine: the transports' conformance suite, NCCL's plugin and the faults, on two soft-RoCE devices. What a test
# left behind on a device would still be there at the end.
. /vm/soft_roce.sh
soft_roce 0 10.77.0.1/24 && soft_roce 1 10.77.1.1/24 || exit 1
rdma resource show > /tmp/before
# The plugin for NCCL first, with a device for each of the two: the faults take them away.
RINGTREE_TRANSPORTS=verbs,tcp nccl_net_plugin > /tmp/out 2>&1
plugin=$?
grep -v "^ok.*_version_\(8\|9\|10\)$" /tmp/out
grep -q "^ok  *a_port_that" /tmp/out || { echo "FAILED: a port that does not meet was not tried"; plugin=1; }
verbs_vm_test "$@"
status=$?
[ $plugin = 0 ] || { echo "FAILED: NCCL's plugin"; status=1; }
rdma resource show > /tmp/after
for when in before after; do sed 's/^[0-9]*: //' /tmp/$when | sort > /tmp/sorted.$when; done
cmp -s /tmp/sorted.before /tmp/sorted.after || { echo "FAILED: left on the devices:"; cat /tmp/before /tmp/after; status=1; }
exit $status
