# Inside the virtual machine: sourced by the scripts. soft_roce N ADDRESS/BITS gives interface dummyN a device rxeN.
soft_roce()
{
    ip link add "dummy$1" type dummy 2>/dev/null
    ip addr add "$2" dev "dummy$1" && ip link set "dummy$1" up mtu 4200 || return 1
    rdma link add "rxe$1" type rxe netdev "dummy$1"
}
ulimit -l unlimited
