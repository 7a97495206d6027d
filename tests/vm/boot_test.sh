#!/bin/sh
# boot_test.sh BOOT: what the virtual machine's runner promises: output apart from status, modules, time limit, death.
set -u
boot=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

fail() { echo "FAILED: $*"; failed=1; }
# expect STATUS "what is shown" boot's arguments...
expect()
{
    wanted=$1 words=$2
    shift 2
    "$boot" "$@" >out 2>err
    status=$?
    if [ $status = 77 ] && [ "$wanted" != 77 ]; then cat err; exit 77; fi
    [ $status = "$wanted" ] || fail "status $status, not $wanted: $* ($(cat out err))"
    grep -qx "$words" out err || fail "no line \"$words\": $* ($(cat out err))"
}

cat >inside.sh <<'END'
echo "$2, $(nproc) CPUs, $NAME"
[ -d /sys/module/dummy ] && [ "$(/vm/env echo x)" = x ] || exit 1
printf 'no newline'
exit 3
END
echo 'sleep 600' >slow.sh
echo 'echo before; poweroff -f' >dies.sh

expect 3 'b c, 3 CPUs, a value' --qemu '-smp 3' --module dummy --file /usr/bin/env --env 'NAME=a value' \
    -- inside.sh a 'b c'
[ "$(tail -n 1 out)" = 'no newline' ] && [ "$(wc -l <out)" = 1 ] || fail "the output is not what the script wrote"
expect 124 'boot: not done after 2 s' --timeout 2 -- slow.sh
expect 125 'boot: the machine ended before the script did' -- dies.sh
expect 77 'skipped: kernel .* has no module no_such' --module no_such -- slow.sh
expect 77 'skipped: no library libnone.so.1 here' --library libnone.so.1 -- slow.sh
exit $failed
