#!/bin/sh
# install_test.sh BUILD: installs into a new prefix and does there what users do: find_package and pkg-config, shared
# and static, C and C++, two ranks by the installed ringtree-run; then reads the installed man pages.
set -eu
build=$1 here=$(cd "$(dirname "$0")" && pwd)
work=$build/install_test
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work"

say() { echo "-- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# Two ranks of a program, by the installed ringtree-run, add up to 2.
run()
{
    "$prefix/bin/ringtree-run" -n 2 --timeout 60 "$1" >"$work/out" 2>&1 || { cat "$work/out"; fail "$1"; }
    [ "$(grep -c 'of 2: 2$' "$work/out")" = 2 ] || { cat "$work/out"; fail "$1 printed something else"; }
    say "$(basename "$1") runs on two ranks"
}

needs_ringtree_so() { readelf -d "$1" | grep -q 'NEEDED.*libringtree\.so\.0'; }

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; fail "cmake --install"; }
for wanted in include/ringtree/ringtree.h lib/libringtree.so lib/libringtree.so.0 lib/libringtree.a bin/ringtree-run \
    lib/pkgconfig/ringtree.pc share/man/man3/ringtree_all_reduce.3 share/man/man1/ringtree-run.1; do
    [ -e "$prefix/$wanted" ] || fail "$wanted was not installed"
done
readelf -d "$prefix/lib/libringtree.so" | grep -q 'SONAME.*libringtree\.so\.0' || fail "no SONAME"
if grep -r "$build" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"; then fail "the packages name the build folder"; fi

# The installed tree works wherever it is moved.
mv "$prefix" "$prefix-moved"
prefix=$prefix-moved

mkdir "$work/user"
cp "$here/hello.c" "$work/user/hello.c"
cp "$here/hello.c" "$work/user/hello.cpp"
cp "$here/user.cmake.in" "$work/user/CMakeLists.txt"
if ! { cmake -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build "$work/user/build"; } >"$work/user.log" 2>&1; then
    cat "$work/user.log"; fail "find_package(ringtree)"
fi
for program in c_shared cxx_shared c_static cxx_static; do run "$work/user/build/$program"; done
needs_ringtree_so "$work/user/build/c_shared" || fail "c_shared does not use the shared library"
if needs_ringtree_so "$work/user/build/c_static"; then fail "c_static uses the shared library"; fi

PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
case $(pkg-config --libs ringtree) in *sodium*) fail "pkg-config --libs names what only a static link needs" ;; esac
# shellcheck disable=SC2046 # lists of flags
cc -std=c11 -Wall -Wextra -Werror -pedantic $(pkg-config --cflags ringtree) "$here/hello.c" -o "$work/pc_shared" \
    -Wl,-rpath,"$prefix/lib" $(pkg-config --libs ringtree) || fail "pkg-config, shared"
run "$work/pc_shared"
# shellcheck disable=SC2046
c++ -Wall -Wextra -Werror $(pkg-config --cflags ringtree) "$work/user/hello.cpp" -o "$work/pc_cxx" \
    -Wl,-rpath,"$prefix/lib" $(pkg-config --libs ringtree) || fail "pkg-config, C++"
run "$work/pc_cxx"
# shellcheck disable=SC2046
cc $(pkg-config --static --cflags ringtree) "$here/hello.c" -o "$work/pc_static" -static \
    $(pkg-config --static --libs ringtree) 2>"$work/log" || { cat "$work/log"; fail "pkg-config --static"; }
run "$work/pc_static"

"$work/user/build/c_shared" | grep -q 'rank 0 of 1: 1' || fail "a program without a launcher is not one rank"

if ! command -v man >/dev/null || ! command -v groff >/dev/null; then
    say "man pages not read: no man or groff"
    exit 0
fi
for page in "$prefix"/share/man/man[13]/*; do
    warnings=$(cd "$prefix/share/man" && groff -man -ww -Tutf8 -z "$page" 2>&1)
    [ -z "$warnings" ] || fail "$page: $warnings"
done
say "no man page gives a warning"
man -M "$prefix/share/man" ringtree_group_end 2>/dev/null | grep -q ringtree_group_begin || fail "an alias is dead"
