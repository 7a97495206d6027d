# Inside the virtual machine: what ringtree-topo says of it, without what differs from kernel to kernel.
ringtree-topo show && ringtree-topo dump | sed 's/ memory_bytes="[0-9]*"//' || exit 1
ringtree-topo check
