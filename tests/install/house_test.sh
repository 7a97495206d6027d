#!/bin/sh
# house_test.sh SOURCE: a folder of the house includes only what the top CMakeLists.txt lets it see, also by relative
# paths, which no include path can refuse; and the library neither prints nor exits.
set -eu
cd "$1"
status=0
if grep -rn '#include "\.\./' src transports topology --include='*.[ch]'; then
    echo "FAILED: relative includes go round the folders' rules"; status=1
fi
# log.c is the one that writes; what runs as a program is not the library
calls=$(grep -rnE '(^|[^a-z_.>])(printf|puts|perror|abort|exit|_exit)\(' src transports topology --include='*.c' |
    grep -v -E '^src/(tools|verify)/' | grep -v -E '^[^:]*:[0-9]+: *(/?\*|//)' || true)
if [ -n "$calls" ]; then echo "FAILED: the library prints or exits: $calls"; status=1; fi
long=$(find src transports topology include perf tests -name '*.[ch]' \
    -exec awk 'END { if (FNR > 600) print FILENAME, FNR }' {} \;)
if [ -n "$long" ]; then echo "FAILED: files over 600 lines: $long"; status=1; fi
wide=$(find src transports topology include perf tests -name '*.[ch]' \
    -exec awk 'length > 120 { print FILENAME ":" FNR }' {} \;)
if [ -n "$wide" ]; then echo "FAILED: lines over 120 columns: $wide"; status=1; fi
exit $status
