#!/bin/sh
# arrows_test.sh SOURCE WORK: a folder can include only what cmake/folders.cmake lets it see. A small project with the
# same functions compiles a right include and refuses a wrong one.
set -eu
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work/low" "$work/high" "$work/include"
ln -s "$source/cmake" "$work/cmake"
echo 'int low_value(void);' >"$work/low/low.h"
echo 'int high_value(void);' >"$work/high/high.h"
printf '#include "low/low.h"\nint low_value(void) { return 1; }\n' >"$work/low/low.c"
printf '#include "low/low.h"\n#include "high/high.h"\nint high_value(void) { return low_value(); }\n' \
    >"$work/high/high.c"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(arrows C)
include(cmake/folders.cmake)
rt_view(low  low  low)
rt_view(high high high)
rt_folder(low  low  SEES low)
rt_folder(high high SEES low high)
END
if ! { cmake -S "$work" -B "$work/build" && cmake --build "$work/build"; } >"$work/log" 2>&1; then
    cat "$work/log"; echo "FAILED: a right include does not compile"; exit 1
fi

printf '#include "low/low.h"\n#include "high/high.h"\nint low_value(void) { return high_value(); }\n' >"$work/low/low.c"
if cmake --build "$work/build" >"$work/log" 2>&1; then echo "FAILED: low includes high, and it compiles"; exit 1; fi
if ! grep -q 'high/high.h: No such file' "$work/log"; then
    cat "$work/log"; echo "FAILED: refused for another reason"; exit 1
fi
echo "an include against the arrows is refused"
