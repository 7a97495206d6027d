# Inside the virtual machine: rounds of perftest's programs and ringtree's in turn, then medians and their ratios.
# Bandwidths in MB/s (10^6), times in microseconds. Arguments: rounds, and against whom.
. /vm/soft_roce.sh
soft_roce 0 10.77.0.1/24 || exit 1
export RINGTREE_TRANSPORTS=verbs
echo root:x:0:0:root:/root:/bin/sh > /etc/passwd # mpirun looks there
# peers TOOL arguments...: perftest's pair of processes; the fields of the result
peers()
{
    tool=$1
    shift
    $tool -d rxe0 -x 1 "$@" > /dev/null 2>&1 &
    sleep 0.5
    $tool -d rxe0 -x 1 "$@" 127.0.0.1 2> /dev/null | grep -E '^ [0-9]+ ' | tail -n 1
    wait
}
# ringtree PROGRAM BYTES COLUMN arguments...: of the last row
ringtree()
{
    program=$1 bytes=$2 column=$3
    shift 3
    $program -g 2 -b "$bytes" -e "$bytes" -c 0 "$@" 2> /dev/null | grep -E '^ +[0-9]+ +[0-9]+ ' | tail -n 1 |
        awk "{ print \$$column }"
}
note() { echo "$1 $2" | tee -a /tmp/notes; }
median()
{
    grep "^$1 " /tmp/notes | awk '{ print $2 }' | sort -n |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
ratio()
{
    a=$(median "$1") b=$(median "$2")
    echo "$1 / ($2 x $3): $a / ($b x $3) = $(awk "BEGIN { print $a / ($b * $3) }")"
}

# 8 bytes: the median of single calls and the average, of one run
small()
{
    ringtree all_reduce_perf 8 '11, $6' -n 800 -w 100 --percentiles > /tmp/out
    note all_reduce_8B_median "$(cut -d' ' -f1 /tmp/out)"
    note all_reduce_8B_average "$(cut -d' ' -f2 /tmp/out)"
}
large() { note all_reduce_16M "$(ringtree all_reduce_perf 16M 6 -n 2 -w 1 | awk '{ print 16777216 / $1 }')"; }

against_perftest()
{
    note ib_write_bw "$(peers ib_write_bw -s 131072 -n 200 | awk '{ print $4 * 1.048576 }')"
    note broadcast_16M "$(ringtree broadcast_perf 16M 6 -n 2 -w 1 | awk '{ print 16777216 / $1 }')"
    note ib_write_bw_both_ways "$(peers ib_write_bw -b -s 131072 -n 200 | awk '{ print $4 * 1.048576 }')"
    large
    peers ib_write_lat -s 8 -n 800 > /tmp/out
    note ib_write_lat_typical "$(awk '{ print $5 }' /tmp/out)"
    note ib_write_lat_average "$(awk '{ print $6 }' /tmp/out)"
    small
}

# mpi BYTES CALLS: by Open MPI over UCX's reliable connections; bytes, median and average in us
mpi()
{
    UCX_IB_GID_INDEX=0 UCX_TLS=rc_v,self PMIX_MCA_gds=hash OMPI_ALLOW_RUN_AS_ROOT=1 \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 --oversubscribe --mca plm isolated --mca pml ucx --mca btl self \
        figures_mpi "$1" "$2" 2> /dev/null
}
against_open_mpi()
{
    mpi 8 800 > /tmp/mpi
    note open_mpi_8B_median "$(cut -d' ' -f2 /tmp/mpi)"
    note open_mpi_8B_average "$(cut -d' ' -f3 /tmp/mpi)"
    small
    note open_mpi_16M "$(mpi 16777216 2 | awk '{ print 16777216 / $3 }')"
    large
}

for round in $(seq "${1:-5}"); do against_${2:-perftest}; done
if [ "$2" = open_mpi ]; then
    ratio all_reduce_16M open_mpi_16M 1
    ratio all_reduce_8B_median open_mpi_8B_median 1
    ratio all_reduce_8B_average open_mpi_8B_average 1
    exit
fi
ratio broadcast_16M ib_write_bw 1
ratio all_reduce_16M ib_write_bw 1
ratio all_reduce_16M ib_write_bw_both_ways 0.5
ratio all_reduce_8B_median ib_write_lat_typical 2
ratio all_reduce_8B_average ib_write_lat_average 2
