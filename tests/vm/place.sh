# Inside the virtual machine: where ranks run, and where their memory is if that is decided.
run() { echo "== $*"; "$@" || echo "status $?"; }
cores() { run "$@" | sed 's/, memory in domain [0-9], slots [a-z]*//'; }
export RINGTREE_DIRECT=0 # all through slots
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
run ringtree-run --no-prefix -n 4 placed
cores ringtree-run --no-prefix -n 2 env RINGTREE_PROGRESS_THREAD=1 placed
cores env RINGTREE_PROGRESS_THREAD=1 placed
cores taskset 0x3f ringtree-run --no-prefix -n 2 placed
run ringtree-run --no-prefix --bind -n 2 placed
cores ringtree-run --no-prefix -n 2 env RINGTREE_BIND=0 placed
mount -t cgroup2 cgroup /sys/fs/cgroup && echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/job
echo 2-5 >/sys/fs/cgroup/job/cpuset.cpus
run sh -c 'echo $$ >/sys/fs/cgroup/job/cgroup.procs; exec ringtree-run --no-prefix -n 2 placed'
cd /sys/fs/cgroup && mkdir task0 task1 && echo 0,2 >task0/cpuset.cpus && echo 1,3 >task1/cpuset.cpus
cores ringtree-run --no-prefix -n 2 sh -c 'echo $$ >task$RINGTREE_RANK/cgroup.procs; exec placed'
run ringtree-info | grep -e '^  NUMA' -e '^  binding'
run ringtree-run --no-prefix -n 4 ringtree-topo show --merged | grep -e == -e numa -e machine
